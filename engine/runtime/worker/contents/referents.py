"""What objects refer to, as the collector of garbage sees it: for objects that do not tell what they hold.

Runs no code of the objects. Used by `walk` and the forms.
"""

from __future__ import annotations

import gc
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Final, cast

MARSHALLED: Final = frozenset((int, float, complex, bool, str, bytes, type(None), type(...)))
"""Immutable types whose content `marshal` writes, each in one way only."""
_LONG: Final = frozenset((list, tuple, dict, set, frozenset))
_NO_PARTS: Final = frozenset((ModuleType, FunctionType, CodeType, FrameType))
_BEHIND_A_GAP: Final = 256


def behind(value: object, limit: int = _BEHIND_A_GAP) -> set[int]:
    """Ids of what `value` refers to, and what that does: about `limit` of them at most.

    Functions, classes and modules are not followed.
    """
    found: set[int] = set()
    waiting = [value]
    while waiting and len(found) < limit:
        # The collector lists all of a container at once, however long it is.
        waiting = [each for each in waiting if type(each) not in _LONG or len(cast("list[object]", each)) <= limit]
        near = [each for each in gc.get_referents(*waiting) if _is_part(each) and id(each) not in found]
        found.update(map(id, near))
        waiting = near
    return found


def _is_part(value: object) -> bool:
    kind = type(value)
    if kind in MARSHALLED or kind in _NO_PARTS or issubclass(kind, type):
        return False
    return kind is not dict or "__builtins__" not in cast("dict[object, object]", value)
