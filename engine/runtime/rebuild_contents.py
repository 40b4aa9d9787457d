"""What a rebuild takes from the store: contents that steps need, and saved values that replace the result of a step.

`PastContents` loads what steps need and prepares it for one worker. A missing or damaged blob becomes an answer or a
revision with a reason. Answers and revisions are read ahead, because a visit of the store takes as long as a statement;
so are values of a statement that the guard will probably stop. Each revision's content is sent to a worker once.

`KeptValues` finds the values that replace the result of a statement. Values are kept in groups that share objects. A
group counts for a name until the name is kept again. A name is never set alone: all names whose newest copy is in the
same group are set with it, because otherwise two names would no longer share an object. Must not know how a step runs.
Used by `rebuild` and `replay_run`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ..core.errors import StoreError
from ..core.ids import BlobDigest
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
from .worker.protocol import Answer, Content, Look

NOT_KEPT: Final = "the process ended before the copy was saved"
EARLIER: Final = "the log is from an earlier version, which saved no copies"
_AHEAD: Final = 32
"""Contents to read at once and hold in memory."""
_AHEAD_BYTES: Final = 1 << 20
"""Total size of the revisions among them, apart from the first."""
_COPIES_BYTES: Final = 256 << 10
"""Size of one step's values that are read ahead."""
WITHHELD: Final = "contained a secret and was not saved"
TOO_LARGE: Final = "was too large to save"
MISSING: Final = "is missing in the store"
DROPPED: Final = "was dropped to stay within past_bytes"
DAMAGED: Final = "is damaged in the store"


class PastContents:
    """The contents of one history for one worker. Called once for each step, in order."""

    def __init__(self, contents: Contents, steps: Iterable[PastStep]) -> None:
        self._contents = contents
        self._unsent: list[Content] = []
        self._sent: set[str] = set()
        self._due = deque(_due(steps))
        """Unread contents in the order of steps, each with its size if that is known, else 0."""
        self._read: dict[BlobDigest, bytes | str] = {}

    async def answers(self, past: Iterable[PastAnswer]) -> tuple[Answer, ...]:
        """Convert recorded answers for the worker; a missing one has a reason."""
        return tuple([await self._answer(place, answer) for place, answer in enumerate(past)])

    async def looks(self, past: Iterable[PastRevision]) -> tuple[Look, ...]:
        """Convert revisions for the worker, which needs the contents of `take_unsent` first."""
        return tuple([await self._look(revision) for revision in past])

    def take_unsent(self) -> tuple[Content, ...]:
        """Return the contents that `looks` named since the last call, to send ahead of their step."""
        unsent, self._unsent = self._unsent, []
        return tuple(unsent)

    async def copies(self, past: PastExecution) -> tuple[ValueGroup, ...] | None:
        """Load the values of all names that the step bound; None unless all are small and available."""
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
        """Load the payloads of a tick. One without data, because that is missing, is dropped by the worker."""
        wanted = {each.content: None for each in past if each.content is not None}
        found: Mapping[BlobDigest, bytes | StoreError] = await self._contents(wanted) if wanted else {}
        data = {digest: content for digest, content in found.items() if isinstance(content, bytes)}
        return tuple(
            each.payload if each.content is None else replace(each.payload, data=data.get(each.content, b""))
            for each in past
        )

    async def values(self, past: Collection[PastValues]) -> list[bytes | str]:
        """Load pickles of values; for a missing one, the reason as a phrase."""
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
        """Queue the content unless it was sent; return a reason if it is missing."""
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
        """Read the content, and if it is due, some that are due after it."""
        wanted = {content: None}
        if any(content == due for due, _ in self._due):
            while self._due.popleft()[0] != content:
                pass  # the steps that need the earlier ones were skipped
            size = 0
            while self._due and len(wanted) <= _AHEAD and (size := size + self._due[0][1]) <= _AHEAD_BYTES:
                wanted[self._due.popleft()[0]] = None
        found = await self._contents(wanted)
        for each in wanted:
            data = found.get(each, MISSING)
            self._read[each] = DAMAGED if isinstance(data, StoreError) else data


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


def is_ahead(past: PastExecution) -> bool:
    """Whether a step's values are small and probably needed: it acted outside without the host."""
    return past.acted and not past.answers and sum(values.size for values in past.kept) <= _COPIES_BYTES


def _value_in(found: Mapping[BlobDigest, bytes | StoreError], values: PastValues) -> bytes | str:
    if values.content is None:
        return values.data or WITHHELD
    data = found.get(values.content, DROPPED if values.dropped else MISSING)
    return DAMAGED if isinstance(data, StoreError) else data


class KeptValues:
    """The kept value of each name after the last step taken."""

    def __init__(self) -> None:
        self._newest: dict[str, PastValues] = {}
        self._unkept: dict[str, str] = {}
        self._present: set[str] = set()

    def take(self, past: PastExecution) -> None:
        """Take the next step."""
        reason = EARLIER if past.revisions is None else NOT_KEPT
        for name in past.bound:
            self._newest.pop(name, None)
            self._unkept[name] = reason
        self._take_kept(past.kept, past.unkept)
        self._present.update(past.bound)
        self._present.difference_update(past.unbound)

    def take_rebuild(self, past: PastRebuild) -> None:
        """Take the results of an earlier rebuild for names without a copy."""
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
        """The names that the group counts for; not those that were deleted since."""
        return tuple(name for name in group.names if self._newest.get(name) is group and name in self._present)

    def wanted(self, names: Iterable[str], found: Collection[str] = ()) -> Wanted:
        """The changes that restore `names`. Those in `found` are known to be equal, and set only with others."""
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


class Wanted(Struct, frozen=True, kw_only=True):
    """Changes of a namespace: names to set, by their group, and names to delete.

    `without` are names without a copy, each with the reason as a phrase.
    """

    groups: dict[PastValues, tuple[str, ...]] = field(default_factory=dict[PastValues, tuple[str, ...]])
    delete: tuple[str, ...] = ()
    without: dict[str, str] = field(default_factory=dict[str, str])
