"""Exact o200k_base token counts without a network: packaged ranks, safe cuts, and incremental counting.

Knows text and nothing else. Called by nodes (budgets), projection (the tail) and the worker, which loads the ranks once
before it forks. Counts for models with another tokenizer are estimates; whoever shows them says so.
"""

from __future__ import annotations

from .counter import count, counter, load
from .pieces import cut
from .ruler import Ruler

__all__ = ["Ruler", "count", "counter", "cut", "load"]
