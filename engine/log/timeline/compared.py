"""In what two executions of one statement differ: what each came to, and what it had to do with what is outside.

Each aspect once, in the order of `Aspect`, with what it was before and after. Pure; must not know how a statement is
run. Used by `sessions.replaying`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, get_args

from msgspec import Struct

from ...core.cutting import cut_line
from ...core.execution import LOOKED, REPLAY_EFFECT, Aspect
from ..events.execution import ExecutionFinished
from ..past_values import Differences, PastExecution

_SIDE_CHARS: Final = 400
"""Of what an aspect was, or is."""
_SHOWN: Final = 8
"""Of files, artifacts and effects."""
_Sides = tuple[Aspect, str, str]
"""An aspect with what it was and is."""
_ASPECTS: Final[tuple[Aspect, ...]] = get_args(Aspect)


class AspectChange(Struct, frozen=True):
    """What an aspect was before and is after; empty is nothing."""

    aspect: Aspect
    before: str
    after: str


def aspects_of_rerun(
    past: PastExecution, before: ExecutionFinished, after: ExecutionFinished, found: Differences, stops: Sequence[str]
) -> Sequence[AspectChange]:
    """Of a statement that ran again with what is recorded; `stops` are phrases on what it was kept from.

    Where it ended by that, all else that differs comes of it, and is not told.
    """
    ended = after.exception is not None and after.exception.type == REPLAY_EFFECT and bool(stops)
    unseen = [stop for stop in stops if stop.startswith(LOOKED)]
    kept = [stop for stop in stops if not stop.startswith(LOOKED)]
    sides = [] if ended else _sides(found)
    if unseen:
        sides.append(("files read", "", "; ".join(unseen)))
    if kept:
        sides.append(("stopped effects", _acts(past, before), "; ".join(kept)))
    return _merged(sides)


def aspects_of_live_rerun(
    found: Differences,
    read: tuple[Mapping[str, str], Mapping[str, str]],
    left: tuple[Mapping[str, str], Mapping[str, str]],
) -> Sequence[AspectChange]:
    """Of a statement that ran again with its effects; `read` and `left` are digests of files by path, then and now."""
    return _merged([*_sides(found), *_files("files read", *read), *_files("artifacts", *left)])


def _sides(found: Differences) -> list[_Sides]:
    return [(each.aspect, each.before, each.after) for each in found.divergences]


def _merged(sides: Iterable[_Sides]) -> Sequence[AspectChange]:
    by_aspect: dict[Aspect, list[tuple[str, str]]] = {}
    for aspect, before, after in sides:
        by_aspect.setdefault(aspect, []).append((before, after))
    return [
        AspectChange(
            aspect,
            *(cut_line("; ".join(filter(None, texts)), _SIDE_CHARS) for texts in zip(*by_aspect[aspect], strict=True)),
        )
        for aspect in _ASPECTS
        if aspect in by_aspect
    ]


def _acts(past: PastExecution, before: ExecutionFinished) -> str:
    """What it did outside the first time."""
    asked = [answer.question.title or answer.question.operation for answer in past.answers if answer.question]
    # What it asked for says itself which files it was about.
    return _listed(asked or [f"changed {artifact.path}" for artifact in before.artifacts])


def _files(aspect: Aspect, then: Mapping[str, str], now: Mapping[str, str]) -> Iterable[_Sides]:
    paths = sorted(path for path in then.keys() | now.keys() if then.get(path) != now.get(path))
    if paths:
        yield aspect, _digests(paths, then), _digests(paths, now)


def _digests(paths: Iterable[str], digests: Mapping[str, str]) -> str:
    return _listed([f"{path} {digests[path][:8] or '(no file)'}" for path in paths if path in digests])


def _listed(texts: Collection[str]) -> str:
    shown, left = list(texts)[:_SHOWN], len(texts) - _SHOWN
    return ", ".join(shown) + (f" and {left} more" if left > 0 else "")
