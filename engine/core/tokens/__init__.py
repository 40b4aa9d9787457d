"""Exact o200k_base token counts without a network: packaged ranks, safe cuts, and incremental counting.

Knows text and nothing else. Used by the nodes (budgets) and by the worker, whose zygote loads the ranks once before it
forks; the projection is given the counter as an argument. Counts for models with another tokenizer are estimates;
whoever shows them says so.
"""

from __future__ import annotations

from .counter import Ruler, count, counter, cut, load

__all__ = ["Ruler", "count", "counter", "cut", "load"]
