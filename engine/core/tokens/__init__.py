"""Exact o200k_base token counts without a network: packaged ranks, safe cuts, and incremental counting.

Knows text and nothing else. Used by nodes, for their budgets, and by the worker, whose zygote loads the ranks once
before it forks. Prompts get the counter as an argument. Counts for models with another tokenizer are estimates, and are
shown as such.
"""

from __future__ import annotations

from .counter import Ruler, count, counter, cut, load

__all__ = ["Ruler", "count", "counter", "cut", "load"]
