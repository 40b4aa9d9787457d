"""Texts of one handle within larger and larger budgets: none may show less than the one before."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

_NAMES: Final = ("one", "two", "three", "four")
_NAME: Final = "|".join(_NAMES)
LINES: Final = [f"def {name}(): ..." for name in _NAMES]
"""The lines of all files."""
SIZES: Final = (20, 30, 40, 50, 60, 80, 120, 400, 0)
"""Budgets, with 0 for All."""


def losses(node: Mapping[str, Any], lod: int) -> list[str]:
    """What a render shows that one with a larger budget does not, and what a view does not show in any."""
    found, before = list[str](), Counter[str]()
    for tokens in SIZES:
        shown = _units(node, lod, node["texts"][lod, tokens])
        found += [f"level {lod} within {tokens or 'All'} loses {before - shown}"] * bool(before - shown)
        before = shown
    is_named = node["type"] == "view" and (lod == 0 or (lod < 3 and node["title"].startswith("b.py")))
    names = set(re.findall(_NAME, " ".join(node["lines"]))) if is_named else set[str]()
    return [*found, *(f"level {lod} never shows {name}" for name in names if name not in node["texts"][lod, 0])]


def _units(node: Mapping[str, Any], lod: int, text: str) -> Counter[str]:
    """The lines of a view or of its changes; otherwise the names."""
    if node["type"] == "view" and lod in (0, 3):
        return Counter(re.findall(r"^[0-9]+\t.*" if lod == 0 else r"^[-+].*", text, re.M))
    return Counter(set(re.findall(_NAME, text)))
