"""The differences between the record of a statement and its re-run: a `Divergence` for each.

Compared are the status, exception, displayed value, output and bound names. Addresses, object ids and this program's
own frames are removed first, because they differ in every process and mean nothing. Long texts are shown from where
they begin to differ. A value without a digest on one side is compared by its short repr, a handle by its position and
policy, a module by its name. `aspects_of_*` add what a replay reports beside that: files read, artifacts and stopped
effects.

Pure; must not know how a statement runs. Called by `session.live_environment`, by replays, and by the worker's rebuild.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, get_args

from msgspec import Struct

from ..core.execution import (
    LOOKED,
    REPLAY_EFFECT,
    STATEMENT_CANCELLED,
    STATEMENT_TIMEOUT,
    Aspect,
    Captured,
    Ending,
    ExceptionInfo,
    NamespaceDiff,
    TypeInfo,
)
from ..core.text import ELLIPSIS, cut_line, cut_line_from
from .events.execution import ExecutionFinished
from .past import Differences, Divergence, PastExecution

_SHOWN_CHARS: Final = 80
"""The length of a value in a phrase."""
_MESSAGE_CHARS: Final = 320
"""The length of an exception's message."""
_SIDE_CHARS: Final = 400
"""The length of each side of an aspect."""
_SHOWN_NAMES: Final = 8
"""How many names, files or effects a list shows."""
_OTHER_CONTENT: Final = "(of another content)"
_MODULE: Final = "module"
_STOPPED: Final = (STATEMENT_TIMEOUT, STATEMENT_CANCELLED)
_INTERRUPT: Final = ("KeyboardInterrupt", "")
_HANDLES: Final = ("ViewHandle", "GroupHandle")
_SCHEDULE: Final = re.compile(r"(?<= running) (?:Sync|Async|Periodic \S+)(?= lod=)|(?<=[a-z\d]) lod=\d+(?= tokens=)")
"""What the repr of a handle has and earlier versions left out: its frequency and level of detail."""
_SHOWN_REVISION: Final = re.compile(r" [0-9a-f]{8}>$")
_OWN_FRAME: Final = re.compile(
    r'^  File "[^"\n]*/engine/(?:worker|environment|runtime)/[^"\n]*", line \d+.*\n(?: {4}.*\n)*', re.M
)
"""A frame of ours in a traceback or printed stack, with its source lines. It is not part of the statement's outcome."""
_HEX: Final = re.compile(r"(?<=\bat )0x[0-9A-Fa-f]+|\b0x(?:7[ef]|5[56]|ffff|aaaa)[0-9A-Fa-f]{8,10}\b")
_NUMBER: Final = re.compile(r"(?<![\d.])\d{14,15}(?![\d.])")
_SPANS: Final = (
    (0x555555550000, 0x5657FFFFFFFF),
    (0x7E0000000000, 0x7FFFFFFFFFFF),
    (0xAAAA00000000, 0xFFFFFFFFFFFF),
)
"""Where processes have their heap and their mappings, on the two most common architectures."""
_ALIGNMENT: Final = 8
"""The alignment of objects in memory. It tells most addresses from a clock in nanoseconds, which passes these spans
on a machine that has been up for a day or more."""
_ASPECTS: Final[tuple[Aspect, ...]] = get_args(Aspect)
_Sides = tuple[Aspect, str, str]
"""An aspect before and after."""


class AspectChange(Struct, frozen=True):
    """One aspect before and after; empty for nothing."""

    aspect: Aspect
    before: str
    after: str


def without_addresses(text: str) -> str:
    """Replace what looks like a memory address, in hexadecimal or as an `id`, with an ellipsis."""
    return _NUMBER.sub(_number, _HEX.sub(f"0x{ELLIPSIS}", text))


def _number(match: re.Match[str]) -> str:
    number = int(match.group())
    is_address = number % _ALIGNMENT == 0 and any(low <= number <= high for low, high in _SPANS)
    return ELLIPSIS if is_address else match.group()


def ending_of(finished: ExecutionFinished) -> Ending:
    """Return the part of a record that is compared."""
    error = finished.exception
    return Ending(
        status=finished.status,
        value=finished.value,
        markdown=finished.markdown,
        pictures=tuple(picture.digest for picture in finished.pictures),
        exception=None if error is None else ExceptionInfo(type=error.type, message=error.message),
        stdout=finished.stdout,
        stderr=finished.stderr,
        diff=finished.diff,
    )


def differences(before: Ending, after: Ending, uncertain: Collection[str] = ()) -> Differences:
    """Compare a record with a re-run.

    Args:
        before: the record.
        after: the re-run as it would be recorded.
        uncertain: names that an omitted statement bound. It is not a difference if another statement binds them first.
    """
    was, now = _bound(before.diff), _bound(after.diff)
    same = frozenset(name for name in was.keys() & now.keys() if _is_same(was[name], now[name]))
    if before == after:  # as for nearly all re-runs
        return Differences(same=same)
    if before.status != after.status or _exception(before) != _exception(after):
        unbound = _of_names("did not bind {}", {name: (was[name], None) for name in was.keys() - now.keys()})
        return Differences(divergences=(_ending(before, after), *unbound), same=same)
    divergences = [
        *_value(before.value, after.value),
        *_pictures(before, after),
        *_output("stdout", before.stdout, after.stdout),
        *_output("stderr", before.stderr, after.stderr),
        *_names(before.diff, after.diff, frozenset(uncertain)),
    ]
    return Differences(divergences=tuple(divergences), same=same)


def bound_names(diff: NamespaceDiff) -> Collection[str]:
    """Return the names that a statement added or changed, or may have changed."""
    return (*diff.added, *diff.changed, *diff.unknown)


def _exception(finished: Ending) -> tuple[str, str] | None:
    error = finished.exception
    if error is None:
        return None
    # Earlier versions raised the builtin exception without a message. The status has the reason.
    return _INTERRUPT if error.type in _STOPPED else (error.type, without_addresses(error.message))


def _ending(before: Ending, after: Ending) -> Divergence:
    now, was = (each.exception.message if each.exception else "" for each in (after, before))
    if before.status != after.status:
        ended = _described(after, cut_line(now, _MESSAGE_CHARS))
        return Divergence("status", before.status, ended, f"ended with {ended} instead of {before.status}")
    now, was = (_described(*each) for each in zip((after, before), _apart(now, was, _MESSAGE_CHARS // 2), strict=True))
    return Divergence("exception", was, now, f"ended with {now} instead of {was}")


def _described(finished: Ending, message: str) -> str:
    error = finished.exception
    return finished.status if error is None else f"{finished.status} ({error.type}: {message})"


def _value(before: str | None, after: str | None) -> Iterable[Divergence]:
    if before == after or (before and after and _is_alike(before, after)):
        return
    was, now = _shown(_one_line(before), _one_line(after))
    yield Divergence("value", was, now, f"displayed {_instead(was, now)}")


def _pictures(before: Ending, after: Ending) -> Iterable[Divergence]:
    """Compare rich forms. Logs of earlier versions have none, so a missing one says nothing about the first run."""
    if before.markdown and after.markdown and before.value == after.value and before.markdown != after.markdown:
        yield from _value(before.markdown, after.markdown)
    if before.pictures and before.pictures != after.pictures:
        was, now = (f"picture {' '.join(each.pictures)[:8]}" if each.pictures else "" for each in (before, after))
        yield Divergence("value", was, now, f"displayed {'another picture' if now else 'no picture'}")


def _is_alike(before: str, after: str) -> bool:
    was, now = without_addresses(before), without_addresses(after)
    return was == now or was == _SCHEDULE.sub("", now)


def _one_line(text: str | None) -> str | None:
    return None if text is None else text.replace("\n", " ")


def _shown(was: str | None, now: str | None, shown: Callable[[str], str] = str) -> tuple[str, str]:
    """Return both texts shortened; None becomes empty."""
    if now is not None and was is not None:
        now, was = _apart(now, was, _SHOWN_CHARS)
    then, there = ("" if text is None else shown(cut_line(text, _SHOWN_CHARS)) for text in (was, now))
    return then, there


def _instead(was: str, now: str) -> str:
    """Return the phrase for a change."""
    return f"{now or 'nothing'} instead of {was or 'nothing'}"


def _apart(now: str, was: str, chars: int) -> tuple[str, str]:
    """Cut both to `chars` characters, from the same position, so that their difference is visible."""
    if max(len(now), len(was)) <= chars:
        return now, was
    plain = without_addresses(now), without_addresses(was)
    now, was = plain if plain[0] != plain[1] else (now, was)
    longest, shortest = max(len(now), len(was)), min(len(now), len(was))
    at = next((place for place in range(shortest) if now[place] != was[place]), shortest)
    # A third of the text comes before the difference, more if there is less behind it.
    start = min(at - chars // 3, longest - chars + 1)
    return cut_line_from(now, start, chars), cut_line_from(was, start, chars)


def _output(stream: Literal["stdout", "stderr"], before: Captured, after: Captured) -> Iterable[Divergence]:
    if (before.digest, before.total_bytes) == (after.digest, after.total_bytes):
        return
    was, now = (without_addresses(_OWN_FRAME.sub("", captured.text)).splitlines() for captured in (before, after))
    cut = (before.truncated or after.truncated) and before.total_bytes != after.total_bytes
    if was == now and not cut:
        return
    shared = min(len(was), len(now))
    here = next((position for position in range(shared) if was[position] != now[position]), shared)
    then, there = _shown(*(lines[here] if here < len(lines) else None for lines in (was, now)), shown=repr)
    place = f" in line {here + 1}" if here else ""
    verb = "printed" if stream == "stdout" else "wrote to stderr"
    yield Divergence(stream, then, there + place, f"{verb} {_instead(then, there)}{place}")


# --- names -----------------------------------------------------------------------------------------------------------


class _Bound(Struct, frozen=True):
    """The value of a name at the end of the statement."""

    info: TypeInfo
    digest: str | None


def _bound(diff: NamespaceDiff) -> dict[str, _Bound]:
    added = {name: _Bound(info, diff.digests.get(name)) for name, info in diff.added.items()}
    changed = {name: _Bound(change.after, change.after_digest) for name, change in diff.changed.items()}
    return added | changed


def _names(before: NamespaceDiff, after: NamespaceDiff, uncertain: frozenset[str]) -> Iterable[Divergence]:
    was, now = _bound(before), _bound(after)
    # Whether an incomparable value changed is unknown.
    untold = uncertain.union(before.unknown, after.unknown)
    if not before.deep:
        # Earlier versions missed some changes in place and reported others that were none.
        changed = {**before.changed, **after.changed}
        untold |= {name for name, change in changed.items() if change.mutated and not (name in was and name in now)}
    # A name rebound to equal content counts as changed or not by chance: it depends on the new object's address.
    untold |= _rebound_alike(before) | _rebound_alike(after)
    missing = was.keys() - now.keys() - untold
    fresh = now.keys() - was.keys() - untold
    other = {name: (was[name], now[name]) for name in was.keys() & now.keys() if _differs(was[name], now[name])}
    yield from _of_names("left another value in {}", other, lambda name: f" ({_change(*other[name])})")
    yield from _of_names("did not change {}", {name: (was[name], None) for name in missing})
    yield from _of_names("changed {} too", {name: (None, now[name]) for name in fresh})
    kept = sorted(set(before.deleted).difference(after.deleted, uncertain))
    gone = sorted(set(after.deleted).difference(before.deleted, uncertain))
    if kept or gone:
        then, there = (f"del {_listed(names)}" if names else "" for names in (kept, gone))
        yield Divergence("diff", then, there, f"deleted other names: {_listed(sorted(kept + gone))}")


def _rebound_alike(diff: NamespaceDiff) -> frozenset[str]:
    alike = (
        change.before_digest is not None and change.before_digest == change.after_digest
        for change in diff.changed.values()
    )
    return frozenset(name for name, is_alike in zip(diff.changed, alike, strict=True) if is_alike)


def _of_names(
    words: str, names: Mapping[str, tuple[_Bound | None, _Bound | None]], detail: Callable[[str], str] = lambda _: ""
) -> Iterable[Divergence]:
    """Yield one divergence for these names, if there are any. `words` say how they differ, `detail` adds to each."""
    listed = sorted(names)
    if not listed:
        return
    shown = [_assigned(name, *names[name]) for name in listed[:_SHOWN_NAMES]]
    was, now = (", ".join(filter(None, side)) for side in zip(*shown, strict=True))
    yield Divergence("diff", was, now, words.format(_listed(listed, detail)))


def _assigned(name: str, was: _Bound | None, now: _Bound | None) -> tuple[str, str]:
    """Return both assignments of a name, shortened so that the difference is visible; empty for none."""
    then, there = was.info.short_repr if was else "", now.info.short_repr if now else ""
    if was is not None and now is not None:
        there, then = _apart(there, then, _SHOWN_CHARS // 2)
        there += f" {_OTHER_CONTENT}" if there == then else ""
    name, side = cut_line(name, _SHOWN_CHARS), _SHOWN_CHARS + len(_OTHER_CONTENT)
    return f"{name} = {cut_line(then, side)}" if was else "", f"{name} = {cut_line(there, side)}" if now else ""


def _listed(names: list[str], detail: Callable[[str], str] = lambda _: "") -> str:
    return _joined([cut_line(name, _SHOWN_CHARS) + detail(name) for name in names[:_SHOWN_NAMES]], len(names))


def _differs(was: _Bound, now: _Bound) -> bool:
    if was.info.type_name == now.info.type_name and now.info.type_name in _HANDLES:
        return _comparable(was, now) and _policy(was) not in (_policy(now), _SCHEDULE.sub("", _policy(now)))
    if was.digest is not None and was.digest == now.digest:
        return False
    if was.info.type_name == now.info.type_name == _MODULE:
        return _module_name(was) != _module_name(now)
    texts = was.info.short_repr, now.info.short_repr
    plain = without_addresses(texts[0]), without_addresses(texts[1])
    if was.info.type_name != now.info.type_name or plain[0] != plain[1]:
        return not _same_members(was, plain)
    # Either the digests differ, and the reprs differ at most in addresses; or there is nothing to compare.
    return _comparable(was, now) and texts[0] == texts[1]


def _policy(handle: _Bound) -> str:
    """Return the repr of a handle without its revision, because looks at files are compared on their own."""
    return _SHOWN_REVISION.sub(">", handle.info.short_repr)


def _comparable(was: _Bound, now: _Bound) -> bool:
    """Return whether both have digests of the same kind. Those of earlier versions are shorter."""
    return was.digest is not None and now.digest is not None and len(was.digest) == len(now.digest)


def _is_same(was: _Bound, now: _Bound) -> bool:
    """Return whether both certainly have the same content, or are the same module."""
    if was.info.type_name != now.info.type_name:
        return False
    if was.info.type_name == _MODULE:
        return _module_name(was) == _module_name(now)
    return was.digest is not None and was.digest == now.digest


def _module_name(bound: _Bound) -> list[str]:
    # Without its path, which differs in another folder or with another Python.
    return bound.info.short_repr.split("'", 2)[:2]


def _same_members(was: _Bound, plain: tuple[str, str]) -> bool:
    """Return whether two sets have the same reprs in another order, which depends on addresses by default."""
    return was.info.type_name in ("set", "frozenset") and sorted(plain[0]) == sorted(plain[1])


def _change(was: _Bound, now: _Bound) -> str:
    if now.info.short_repr == was.info.short_repr:
        return "its content"
    return " instead of ".join(_apart(now.info.short_repr, was.info.short_repr, _SHOWN_CHARS // 2))


# --- aspects of a replay ----------------------------------------------------------------------------------------------


def aspects_of_rerun(
    past: PastExecution, before: ExecutionFinished, after: ExecutionFinished, found: Differences, stops: Sequence[str]
) -> Sequence[AspectChange]:
    """Return the aspects in which a re-run with recorded answers differs, in the order of `Aspect`.

    `stops` are phrases that say what it was stopped from doing. If a stop ended it, all other differences follow from
    that and are left out.
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
    """Return the aspects in which a live re-run differs, in the order of `Aspect`.

    Args:
        read: digests of the files that it read, by path, before and after.
        left: the same for the files that it changed.
    """
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
    """Return what the statement did outside the first time."""
    asked = [answer.question.title or answer.question.operation for answer in past.answers if answer.question]
    # The titles of effects already name the files.
    return _joined(asked or [f"changed {artifact.path}" for artifact in before.artifacts])


def _files(aspect: Aspect, then: Mapping[str, str], now: Mapping[str, str]) -> Iterable[_Sides]:
    paths = sorted(path for path in then.keys() | now.keys() if then.get(path) != now.get(path))
    if paths:
        yield aspect, _digests(paths, then), _digests(paths, now)


def _digests(paths: Iterable[str], digests: Mapping[str, str]) -> str:
    return _joined([f"{path} {digests[path][:8] or '(no file)'}" for path in paths if path in digests])


def _joined(texts: Sequence[str], count: int | None = None) -> str:
    """Return the first texts as a list that says how many more there are, of `count` or of these."""
    rest = (len(texts) if count is None else count) - _SHOWN_NAMES
    return ", ".join(texts[:_SHOWN_NAMES]) + (f" and {rest} more" if rest > 0 else "")
