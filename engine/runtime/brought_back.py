"""The names of statements that do not run again, or come out otherwise: set from what was kept of them, or named.

Owns what is kept as of each step, the requests that have values set, and what is said of a statement that came out
differently. Where the worker has set them by itself (`ReplayRun`), what it set is worked out here in the same way.
Must not know how a statement is run. Used by `attempt`, one for each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from ..core.execution import NamespaceDiff
from ..log.past import Comparison, PastExecution, PastRebuild, PastStep, ValueGroup
from ..log.statements import RunOutcome
from .bounded_request import LOADING_SECONDS, ask
from .connection import Connection
from .kept_values import EARLIER, KeptValues, Wanted
from .left_out import Culprit
from .past_contents import PastContents
from .sentences import STOPPED, outcome_of, sentence, skipped, told
from .worker.protocol import SetValues, ValuesSet

_TOLD: Final = ("came out differently",)
"""Of a statement of which somebody else says what came out differently."""
_BATCH_BYTES: Final = 64 << 20
"""Of values that are sent together, as far as they are several groups."""


class BroughtBack:
    """The names after each step. `unloaded` are positions whose copies are not loaded. `sentences` are for a report.

    `behind` are earlier steps, of which nothing is to be said: what was kept of them counts for those that come.
    """

    def __init__(
        self,
        worker: Connection,
        steps: Sequence[PastStep],
        past: PastContents,
        compare: Comparison,
        unloaded: Collection[int],
        behind: Sequence[PastStep] = (),
    ) -> None:
        self._worker = worker
        self._steps = steps
        self._past = past
        self._compare = compare
        self._unloaded = unloaded
        self._kept = KeptValues()
        self._behind = behind
        self._taken = 0
        self.sentences: list[str] = []
        self.without: set[str] = set()
        """Names that had no copy when one was needed, and have had none since."""
        self.has_set = False
        """Whether the worker was asked to set or delete any, which it does under its guard."""

    async def skip(self, position: int, past: PastExecution, fault: str | None, last: int) -> Culprit | None:
        """Brings back the names of a statement that does not run again, with a `fault` for that.

        `last` is the position of the one that ran last: deleting a name may call what that has left.
        """
        self._take_until(position)
        wanted = self._kept.wanted((*past.bound, *past.unbound))
        return await self._bring_back(position, past, skipped(past, fault), wanted, last)

    async def rebuild(self, position: int, past: PastRebuild, last: int) -> Culprit | None:
        """Sets what an earlier rebuild has left where it had no copy, which is told of the statement that bound it."""
        self._take_until(position)
        came = await self._set_all(position, self._kept.wanted((*past.anew, *past.absent)), last)
        return came if isinstance(came, Culprit) else None

    async def compared(self, position: int, past: PastExecution, outcome: RunOutcome) -> Culprit | None:
        """Brings back the names of a statement that ran again, as far as it came out otherwise."""
        phrases, wanted = self._wanted(position, past, outcome)
        return await self._bring_back(position, past, phrases, wanted, position) if phrases else None

    def was_set(
        self,
        position: int,
        past: PastExecution,
        outcome: RunOutcome,
        failures: dict[str, str],
    ) -> None:
        """The same, where the worker had the copies: all of them, and some could not be set."""
        phrases, wanted = self._wanted(position, past, outcome)
        set_names, without = [name for names in wanted.groups.values() for name in names], wanted.without | failures
        self._note(set_names, wanted, without)
        self._say(past, phrases, set_names, without)

    def _wanted(self, position: int, past: PastExecution, outcome: RunOutcome) -> tuple[Sequence[str], Wanted]:
        different = self._compare(past, outcome)
        phrases = told(outcome.stops, different.phrases)
        if phrases and different.is_told:
            phrases = _TOLD
        if not phrases:
            return (), Wanted()
        self._take_until(position)
        names = (*past.bound, *past.unbound, *_names(outcome.diff))
        return phrases, self._kept.wanted(names, different.same)

    def _take_until(self, position: int) -> None:
        # Only where something came out otherwise, because most often nothing does, and a history is long.
        self._take((*self._behind, *self._steps[self._taken : position + 1]))
        self._behind = ()
        self._taken = max(self._taken, position + 1)

    def _take(self, steps: Iterable[PastStep]) -> None:
        for step in steps:
            if isinstance(step, PastExecution):
                self._kept.take(step)
            elif isinstance(step, PastRebuild):
                self._kept.take_rebuild(step)

    async def _bring_back(
        self, position: int, past: PastExecution, phrases: Sequence[str], wanted: Wanted, last: int
    ) -> Culprit | None:
        """Sets what is kept of a step's names; says what it came to, unless a stopped one has all its names back."""
        came = await self._set_all(position, wanted, last)
        if isinstance(came, Culprit):
            return came
        self._say(past, phrases, *came)
        return None

    async def _set_all(
        self, position: int, wanted: Wanted, last: int
    ) -> tuple[Sequence[str], dict[str, str]] | Culprit:
        """The names that were set, and those without a copy, each with the reason."""
        without = dict(wanted.without)
        groups: list[ValueGroup] = []
        for data, names in zip(await self._past.values(wanted.groups), wanted.groups.values(), strict=True):
            if isinstance(data, str):
                without |= dict.fromkeys(names, f"its copy {data}")
            elif position in self._unloaded:
                without |= dict.fromkeys(names, "loading its copy ended the worker")
            else:
                groups.append(ValueGroup(names, data))
        for batch in _batches(groups):
            failures = await self._set(SetValues(batch))
            if failures is None:
                return Culprit(position, is_loading=True)
            without |= failures
        if wanted.delete and await self._set(SetValues((), wanted.delete)) is None:
            return Culprit(last)
        set_names = [name for group in groups for name in group.names]
        self._note(set_names, wanted, without)
        return set_names, without

    def _note(self, set_names: Iterable[str], wanted: Wanted, without: dict[str, str]) -> None:
        self.without.difference_update(set_names, wanted.delete)
        # What a log of an earlier version does not tell, the copies would not find either.
        self.without.update(name for name, reason in without.items() if reason != EARLIER)

    def _say(
        self, past: PastExecution, phrases: Sequence[str], set_names: Iterable[str], without: dict[str, str]
    ) -> None:
        brought = [name for name in set_names if name not in without]
        if without or (phrases and phrases is not _TOLD):
            *others, last = phrases or (STOPPED.format(past.status),)
            said = "; ".join([last, *outcome_of(brought, without)])
            self.sentences += [sentence(past.request.label, phrase) for phrase in (*others, said)]

    async def _set(self, message: SetValues) -> dict[str, str] | None:
        """The names that could not be set, each with the reason; None where the worker did not live through it."""
        self.has_set = True
        match await ask(self._worker, message, LOADING_SECONDS):
            case ValuesSet(failures=failures):
                return failures
            case _:
                return None


def _batches(groups: Iterable[ValueGroup]) -> Iterable[tuple[ValueGroup, ...]]:
    """The groups as they are sent, the small ones first: functions and classes are, and others may need them."""
    batch: list[ValueGroup] = []
    size = 0
    for group in sorted(groups, key=lambda group: len(group.data)):
        if batch and size + len(group.data) > _BATCH_BYTES:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(group)
        size += len(group.data)
    if batch:
        yield tuple(batch)


def _names(diff: NamespaceDiff) -> Iterable[str]:
    return (*diff.added, *diff.changed, *diff.unknown, *diff.deleted)
