"""What a rebuild needs of the store and says of its steps: contents, kept values, skipped statements, sentences."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ..core.errors import StoreError
from ..core.ids import BlobDigest
from ..core.text import cut_line, printable
from ..log.past import (
    Contents,
    PastAnswer,
    PastExecution,
    PastPayload,
    PastRebuild,
    PastRevision,
    PastStep,
    PastValues,
    ValueGroup,
)
from ..log.statements import UpdatePayload
from .worker.guarding.guard import replaying
from .worker.protocol import Answer, Content, Look

# Which kept values stand for what a statement left, where it does not run again or came out differently: a fold.
#
# A name's values are kept in groups that share objects, and a group counts for a name until the name is kept anew. So
# a name is never set alone: with it come all names that are there and whose newest copy is in the same group, because
# a copy of a shared object under one name would no longer be the object under the other. Must not know how values are
# kept or loaded. Used by `rebuild`, one for each attempt.

NOT_KEPT: Final = "its process ended before it was kept"
EARLIER: Final = "its log is of an earlier version, which kept none"


class Wanted(Struct, frozen=True, kw_only=True):
    """What to do to a namespace: names to set, by the group they come from, names to delete, and those without a copy.

    `without` has the reason by name, a phrase.
    """

    groups: dict[PastValues, tuple[str, ...]] = field(default_factory=dict[PastValues, tuple[str, ...]])
    delete: tuple[str, ...] = ()
    without: dict[str, str] = field(default_factory=dict[str, str])


class KeptValues:
    """The values that are kept of each name as they were after the last step that was taken."""

    def __init__(self) -> None:
        self._newest: dict[str, PastValues] = {}
        self._unkept: dict[str, str] = {}
        self._present: set[str] = set()

    def take(self, past: PastExecution) -> None:
        """The next step."""
        reason = EARLIER if past.revisions is None else NOT_KEPT
        for name in past.bound:
            self._newest.pop(name, None)
            self._unkept[name] = reason
        self._take_kept(past.kept, past.unkept)
        self._present.update(past.bound)
        self._present.difference_update(past.unbound)

    def take_rebuild(self, past: PastRebuild) -> None:
        """What an earlier rebuild has left where it had no copy."""
        for name in past.anew:
            self._newest.pop(name, None)
            self._unkept[name] = NOT_KEPT
        self._take_kept(past.kept, past.unkept)
        self._present.update(past.anew)
        self._present.difference_update(past.absent)

    def _take_kept(self, kept: Iterable[PastValues], unkept: Mapping[str, str]) -> None:
        for group in kept:
            for name in group.names:
                self._newest[name] = group
                self._unkept.pop(name, None)
        for name, reason in unkept.items():
            self._newest.pop(name, None)
            self._unkept[name] = reason

    def _standing(self, group: PastValues) -> tuple[str, ...]:
        """The names that the group counts for; one that was deleted since is not to be there again."""
        return tuple(name for name in group.names if self._newest.get(name) is group and name in self._present)

    def wanted(self, names: Iterable[str], found: Collection[str] = ()) -> Wanted:
        """What brings `names` back. `found` are known to be as they were, and are set only where others need it."""
        chosen = set(names)
        there = [name for name in chosen if name in self._present]
        groups = {self._newest[name] for name in there if name not in found and name in self._newest}
        return Wanted(
            groups={group: self._standing(group) for group in groups},
            delete=tuple(sorted(chosen.difference(self._present, found))),
            without={
                name: self._unkept.get(name, NOT_KEPT)
                for name in sorted(there)
                if name not in found and name not in self._newest
            },
        )


# past contents:
# What the steps of a history need of the store, loaded and handed to one worker as each of them is due.
#
# Owns how a blob that is missing or damaged is told to the worker: as an answer, or a revision, that is not to be
# had. Each revision's content travels to a worker once: whoever sends a step takes what it needs ahead of it. Answers
# and revisions are read ahead, because a step has few and small ones, and each visit of the store costs as much as a
# statement; so are the copies of a statement that is likely to be kept from what it did. Must not know what a step
# does. Used by `attempt`, `ahead` and `brought_back`.

_AHEAD: Final = 32
"""So many contents are read at once, and kept in memory until they are due."""
_AHEAD_BYTES: Final = 1 << 20
"""The revisions among them are of at most so many bytes together, but for the first."""
_COPIES_BYTES: Final = 256 << 10
"""Copies of the values of one step are read ahead up to so many bytes."""
WITHHELD: Final = "held a secret and was not kept"
TOO_LARGE: Final = "was too large to be kept"
MISSING: Final = "is missing in the store"
DROPPED: Final = "was dropped to stay within past_bytes"
DAMAGED: Final = "is damaged in the store"


class PastContents:
    """The contents of one history, for one worker. Called for its steps in order, once for each."""

    def __init__(self, contents: Contents, steps: Iterable[PastStep]) -> None:
        self._contents = contents
        self._unsent: list[Content] = []
        self._sent: set[str] = set()
        self._due = deque(_due(steps))
        """What was not read yet, each with its size as far as that is known, in the order of the steps."""
        self._read: dict[BlobDigest, bytes | str] = {}

    async def answers(self, past: Iterable[PastAnswer]) -> tuple[Answer, ...]:
        """The recorded answers as the worker takes them; one that cannot be had says why."""
        return tuple([await self._answer(place, answer) for place, answer in enumerate(past)])

    async def looks(self, past: Iterable[PastRevision]) -> tuple[Look, ...]:
        """The looks as the worker takes them, after whatever content it has not been sent yet: `take_unsent`."""
        return tuple([await self._look(revision) for revision in past])

    def take_unsent(self) -> tuple[Content, ...]:
        """The contents that `looks` named since this was last called, for the worker, ahead of their step."""
        unsent, self._unsent = self._unsent, []
        return tuple(unsent)

    async def copies(self, past: PastExecution) -> tuple[ValueGroup, ...] | None:
        """All that is kept of the names that the step had bound; None where not all of that is small and to be had."""
        if not is_ahead(past):
            return None
        own = KeptValues()
        own.take(past)
        wanted = own.wanted((*past.bound, *past.unbound)).groups
        found = {values: values.data for values in wanted if values.data}
        for values in wanted:
            if values.content is not None:
                data = await self._load(values.content)
                if isinstance(data, bytes):
                    found[values] = data
        groups = [ValueGroup(wanted[values], data) for values, data in found.items()]
        return tuple(groups) if len(groups) == len(wanted) else None

    async def payloads(self, past: Collection[PastPayload]) -> tuple[UpdatePayload, ...]:
        """The payloads of a tick with their data; without it where that cannot be had, so that the worker drops it."""
        wanted = {each.content: None for each in past if each.content is not None}
        found: Mapping[BlobDigest, bytes | StoreError] = await self._contents(wanted) if wanted else {}
        data = {digest: content for digest, content in found.items() if isinstance(content, bytes)}
        return tuple(
            each.payload if each.content is None else replace(each.payload, data=data.get(each.content, b""))
            for each in past
        )

    async def values(self, past: Collection[PastValues]) -> list[bytes | str]:
        """Pickles of values, or the reason why one is not to be had, a phrase."""
        wanted = {values.content: None for values in past if values.content is not None}
        found: Mapping[BlobDigest, bytes | StoreError] = await self._contents(wanted) if wanted else {}
        return [_value_in(found, values) for values in past]

    async def _answer(self, place: int, past: PastAnswer) -> Answer:
        asked = past.question
        ordinal = place if asked is None else asked.ordinal
        question = None if asked is None else (asked.operation, asked.argument_digest)
        answer = Answer(ordinal=ordinal, question=question, title="" if asked is None else asked.title)
        if past.withheld:
            return replace(answer, lost=WITHHELD)
        if past.content is None:
            return replace(answer, error=past.error)
        value = await self._value(past.content)
        return replace(answer, lost=value) if isinstance(value, str) else replace(answer, value=value[0])

    async def _value(self, content: BlobDigest) -> tuple[Any] | str:
        data = await self._load(content)
        if isinstance(data, str):
            return data
        try:
            return (msgspec.json.decode(data),)
        except msgspec.DecodeError:
            return DAMAGED

    async def _look(self, past: PastRevision) -> Look:
        return Look(
            path=past.path,
            look=past.look,
            state=past.state,
            digest=past.digest,
            size=past.size,
            notice=past.notice,
            lost=await self._sent_content(past) if past.digest else "",
        )

    async def _sent_content(self, past: PastRevision) -> str:
        """Has the content sent unless the worker has it; the reason where it is not to be had."""
        if past.digest in self._sent:
            return ""
        if past.content is None:
            return WITHHELD if past.withheld else TOO_LARGE
        data = await self._load(past.content)
        if isinstance(data, str):
            return data
        self._unsent.append(Content(past.digest, data))
        self._sent.add(past.digest)
        return ""

    async def _load(self, content: BlobDigest) -> bytes | str:
        if content not in self._read:
            await self._read_ahead(content)
        return self._read.pop(content)

    async def _read_ahead(self, content: BlobDigest) -> None:
        """Reads the content, and where it is one that is due, some that are due after it."""
        wanted = {content: None}
        if any(content == due for due, _ in self._due):
            while self._due.popleft()[0] != content:
                pass  # because whatever needed what is before it was left out
            size = 0
            while self._due and len(wanted) <= _AHEAD and (size := size + self._due[0][1]) <= _AHEAD_BYTES:
                wanted[self._due.popleft()[0]] = None
        found = await self._contents(wanted)
        for each in wanted:
            data = found.get(each, MISSING)
            self._read[each] = DAMAGED if isinstance(data, StoreError) else data


def _value_in(found: Mapping[BlobDigest, bytes | StoreError], values: PastValues) -> bytes | str:
    if values.content is None:
        return values.data or WITHHELD
    data = found.get(values.content, DROPPED if values.dropped else MISSING)
    return DAMAGED if isinstance(data, StoreError) else data


def is_ahead(past: PastExecution) -> bool:
    """Whether what is kept of a step is likely to be needed, and small. What it asked of the host is answered again."""
    return past.acted and not past.answers and sum(values.size for values in past.kept) <= _COPIES_BYTES


def _due(steps: Iterable[PastStep]) -> Iterator[tuple[BlobDigest, int]]:
    seen: set[str] = set()
    for step in steps:
        if isinstance(step, PastRebuild):
            continue
        if isinstance(step, PastExecution):
            yield from ((answer.content, 0) for answer in step.answers if answer.content is not None)
            if is_ahead(step):
                yield from ((kept.content, kept.size) for kept in step.kept if kept.content is not None)
        for revision in step.revisions or ():
            if revision.content is not None and revision.digest not in seen:
                seen.add(revision.digest)
                yield revision.content, revision.size


# left out:
# What one attempt at a history tells the next one: what ended it, and what is not to be done again.
#
# Must not know how an attempt proceeds. Used by `rebuild`, which decides, and by `attempt` with its parts.


class Culprit(Struct, frozen=True):
    """What ended an attempt: the statement at `position` of the steps, None where nobody knows which, -1 before any.

    `is_loading`: not that statement, but what was kept of its names. `is_unclear`: whether any did is to be found out.
    """

    position: int | None
    fault: Literal["ended the worker", "left Python unusable in its process"] = "left Python unusable in its process"
    is_loading: bool = False
    is_unclear: bool = False


class LeftOut(Struct):
    """What an attempt is not to do: statements, by position, each with a phrase that says why, and loading of values.

    With `checks` it looks after each statement whether another one would still run. With `alone` it asks for each step
    by itself.
    """

    statements: dict[int, str] = field(default_factory=dict[int, str])
    values: set[int] = field(default_factory=set[int])
    checks: bool = False
    alone: bool = False


# sentences:
# What a rebuild says of one step: why it did not run again, what came out differently, and what became of its names.
#
# Must not know how a step is carried out. Used by `attempt`.

_SENTENCE_CHARS: Final = 500
_NAME_CHARS: Final = 80
_SHOWN_NAMES: Final = 20

STOPPED: Final = "was stopped ({}), and is not run again"
"""Of a statement of that status."""


def skipped(past: PastExecution, fault: str | None) -> Sequence[str]:
    """Why a statement did not run again; nothing of one that was stopped then, which is no news."""
    if fault is not None:
        return (fault,)
    if past.hindrance:
        return (past.hindrance,)
    stopped = past.status in ("cancelled", "timeout")
    return () if stopped else ("held a secret in its source, which is not kept, so it was not run again",)


def told(stops: Sequence[str], differences: Sequence[str]) -> Sequence[str]:
    """All phrases on a statement; one alone where it ended by what it was kept from, as most that act outside do."""
    for stop in stops:
        reason = f": {replaying(stop)}"
        if differences and reason in differences[0]:
            return ("; ".join((*stops, differences[0].replace(reason, "", 1), *differences[1:])),)
    return (*stops, *differences)


def outcome_of(brought: Collection[str], without: dict[str, str]) -> Iterable[str]:
    """Which names were set from copies, and of which there was none, by reason."""
    if brought:
        yield f"{_listed(brought)} set from what was kept"
    if without:
        by_reason: dict[str, list[str]] = {}
        for name, reason in without.items():
            by_reason.setdefault(reason, []).append(name)
        yield "no copy of " + ", ".join(f"{_listed(names)} ({reason})" for reason, names in by_reason.items())


def _listed(names: Collection[str]) -> str:
    # A name that a statement made up may hold a newline.
    shown = [cut_line(printable(name), _NAME_CHARS) for name in sorted(names)[:_SHOWN_NAMES]]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def sentence(label: str, phrase: str) -> str:
    """What is said of one statement."""
    return bounded(f"{label} {phrase}")


def bounded(text: str) -> str:
    """A sentence within what a report gives to each."""
    return cut_line(text, _SENTENCE_CHARS)
