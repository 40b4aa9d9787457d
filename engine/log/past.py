"""What a namespace is rebuilt from, what came out differently, and what became of its checkpoints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import ClassVar, Final

from msgspec import Struct, field

from ..core.errors import StoreError
from ..core.execution import Aspect, Ending, ExceptionInfo, ExecutionStatus
from ..core.ids import BlobDigest, ExecutionId
from ..core.text import Exact
from .events import UNSTAMPED, Event
from .events.execution import ValuesDropped, ValuesKept
from .events.nodes import OutlineTier, RevisionState
from .events.session import EnvironmentRestored
from .statements import RunOutcome, RunRequest, UpdatePayload


class ValueGroup(Struct, frozen=True):
    """Names whose values share objects, and the pickle of their values; only an environment may load it."""

    names: tuple[Exact, ...]
    data: bytes


class Preserved(Struct, frozen=True, kw_only=True):
    """Values as they were after a statement. `unkept` has names of which there is no copy, with the reason, a phrase.

    `pending`: more of that statement's are being pickled, for `Environment.collect` to take.
    """

    groups: tuple[ValueGroup, ...] = ()
    unkept: dict[str, str] = field(default_factory=dict[str, str])
    pending: bool = False


class PastQuestion(Struct, frozen=True, kw_only=True):
    """What a recorded answer was the answer to. `title` is the call in words, empty where it is not on the log."""

    ordinal: int
    operation: str
    argument_digest: str
    title: str = ""


class PastAnswer(Struct, frozen=True, kw_only=True):
    """A recorded answer to an effect: a value's JSON as content, or the exception that the statement saw.

    `withheld`: it held a secret and was not kept. Where the log does not say what it answered, `question` is None, and
    the answer's place counts. Of an answer about one file `path` is where that really is, and `digest` the xxh3 hex of
    what it held.
    """

    content: BlobDigest | None = None
    error: ExceptionInfo | None = None
    withheld: bool = False
    question: PastQuestion | None = None
    path: str = ""
    digest: str = ""


class PastRevision(Struct, frozen=True, kw_only=True):
    """What the look number `look` at `path` brought in a step; see `RevisionAdopted`.

    Where there is a `digest` and no content, it was not kept: because it was too large, or `withheld`, for a secret.
    """

    path: str
    look: int
    state: RevisionState
    digest: str = ""
    size: int = 0
    notice: str = ""
    content: BlobDigest | None = None
    withheld: bool = False


class PastValues(Struct, frozen=True, kw_only=True):
    """Names whose values were kept together, and their pickle: as `data`, or as content; neither where it is not kept.

    `dropped`: the session has dropped it since, unless something else of it names the same content. `size` in bytes.
    """

    names: tuple[str, ...]
    content: BlobDigest | None
    dropped: bool = False
    size: int = 0
    data: bytes = b""


class PastExecution(Struct, frozen=True, kw_only=True):
    """A step of a history: an execution with what it then saw.

    `again`: it ended by itself, so it runs again; otherwise its names come from kept values alone. `hindrance` is a
    phrase on why one that ended by itself does not run again, where that is not for a secret. `bound` are the
    names that it added or changed, or may have, `unbound` those it deleted. `kept` are values as they were after it,
    `unkept` says of which names there is no copy, and why. `revisions` are those that nodes adopted; None where a log
    of an earlier version does not say. `after_reading`: a model had read the handles since the step before. `ticks` are
    the times of the ticks that it asked for. `record` is what it came to, None where whoever compares has more to go by
    than that. `acted` by itself, it is likely to be kept from it, and to need what is kept of its names.
    """

    request: RunRequest
    status: ExecutionStatus
    again: bool = True
    answers: tuple[PastAnswer, ...] = ()
    revisions: tuple[PastRevision, ...] | None = ()
    bound: tuple[str, ...] = ()
    unbound: tuple[str, ...] = ()
    kept: tuple[PastValues, ...] = ()
    unkept: dict[str, str] = field(default_factory=dict[str, str])
    hindrance: str = ""
    after_reading: bool = False
    ticks: tuple[float, ...] = ()
    record: Ending | None = None
    acted: bool = False


class PastPayload(Struct, frozen=True, kw_only=True):
    """A payload that a tick applied or dropped; its data is `content`, None where that is not kept."""

    payload: UpdatePayload
    content: BlobDigest | None = None


class PastTick(Struct, frozen=True, kw_only=True):
    """A step of a history: a tick at `now`, seconds since the epoch, with the revisions that it brought.

    `payloads` are those that it was given and that came to an end in it, in the order in which they were prepared.
    """

    round_id: int
    now: float
    revisions: tuple[PastRevision, ...] = ()
    payloads: tuple[PastPayload, ...] = ()
    after_reading: bool = False


class PastLooks(Struct, frozen=True, kw_only=True):
    """A step that does not run again: the revisions that nodes adopted in it, which later steps may show."""

    revisions: tuple[PastRevision, ...]


class PastRebuild(Struct, frozen=True, kw_only=True):
    """An earlier rebuild: what it left of names that it had no copy of, which is what the steps after it found.

    `kept` and `unkept` are of the names in `anew`; those in `absent` were bound to nothing.
    """

    anew: tuple[str, ...]
    absent: tuple[str, ...]
    kept: tuple[PastValues, ...] = ()
    unkept: dict[str, str] = field(default_factory=dict[str, str])


PastStep = PastExecution | PastTick | PastLooks | PastRebuild
"""What a history consists of."""


class RestorePlan(Struct, frozen=True, kw_only=True):
    """How a namespace came about, in the order of the log. `after_reading`: a model read the handles after that.

    `tiers` says what outlined the contents that were outlined, by their xxh3 hex. From the position `whole_from` of the
    steps on nothing is left out: what ends its worker there ends the restore. The namespace has the steps in `behind`
    behind it already; what was kept of their names still counts.
    """

    steps: tuple[PastStep, ...] = ()
    behind: tuple[PastStep, ...] = ()
    whole_from: int | None = None
    after_reading: bool = False
    tiers: dict[str, OutlineTier] = field(default_factory=dict[str, OutlineTier])


Contents = Callable[[Collection[BlobDigest]], Awaitable[Mapping[BlobDigest, bytes | StoreError]]]
"""Gives what the log names by its digest: contents, or how they are damaged; what is missing is not in the answer."""


class Divergence(Struct, frozen=True):
    """One thing that came out differently: what it was `before` and is `after`, short, empty for nothing.

    `phrase` says the same after the statement's label.
    """

    aspect: Aspect
    before: str
    after: str
    phrase: str


class Differences(Struct, frozen=True, kw_only=True):
    """How an execution that ran again differs from its record; nothing in `divergences` where it does not.

    `same` are names that both have bound to values of the same content, as far as is known for certain. `is_told`:
    whoever compared says what came out differently, and `Restored` is to say nothing but which names have no copy.
    """

    divergences: tuple[Divergence, ...] = ()
    same: frozenset[str] = frozenset()
    is_told: bool = False

    @property
    def phrases(self) -> tuple[str, ...]:
        """Of each divergence that which follows the statement's label."""
        return tuple(each.phrase for each in self.divergences)


Comparison = Callable[[PastExecution, RunOutcome], Differences]
"""Says what came out differently when that execution ran again."""


class CheckpointNews(Struct, frozen=True, kw_only=True):
    """What became of a checkpoint of the state after an execution: it is there, or, `dropped` for a reason, is not.

    `surplus`: it made room for newer ones. `seconds` is how long it kept the namespace from its work. `shared` are
    phrases on what it has in common with others, or lacks: processes, what is behind pipes and sockets, shared memory.
    `dropped` is a phrase.
    """

    execution_id: ExecutionId
    seconds: float = 0.0
    shared: tuple[str, ...] = ()
    dropped: str = ""
    surplus: bool = False


class Restored(Struct, frozen=True, kw_only=True):
    """How a rebuild went: how many executions ran again, and a sentence on each thing that came out differently.

    What was before the first of those comes from the checkpoint after the execution `checkpoint`, if there is one.

    Of the names in `anew` there was no copy, and they may be other values than they were; those in `absent` are not
    bound for the same reason. What `preserve` gives next has those in `anew`.
    """

    executions: int
    divergences: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    checkpoint: ExecutionId | None = None


# past values:
# What a plan is told of kept values: those of one execution, and those of a rebuild, with the names it had no copy
# of.
#
# Copies are made some time after what they are of, so the head may have moved in between: they count on whatever
# branch they were recorded. So does what was dropped of them, because it is gone. Pure. Used by `replay`.

NOT_ALLOWED: Final = "copies with fewer rights are not loaded"
"""Why there is none of a name."""


class KeptValues:
    """What was kept of each execution, and of each rebuild by its event's id. `apply` is for the whole log."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((ValuesKept, ValuesDropped))

    def __init__(self) -> None:
        self._kept: dict[str, list[ValuesKept]] = {}
        self._dropped_before = UNSTAMPED

    def apply(self, event: Event) -> None:
        match event:
            case ValuesKept(execution_id=execution_id):
                self._kept.setdefault(execution_id, []).append(event)
            case ValuesDropped(before=before):
                self._dropped_before = before
            case _:
                pass

    def groups(self, execution_id: ExecutionId) -> tuple[PastValues, ...]:
        """The copies, those included that have been dropped since."""
        return tuple(
            PastValues(
                names=group.names,
                content=group.content,
                dropped=each.seq < self._dropped_before,
                size=group.size,
                data=group.data,
            )
            for each in self._kept.get(execution_id, ())
            for group in each.groups
        )

    def unkept(self, execution_id: ExecutionId) -> dict[str, str]:
        """The names without a copy, each with the reason."""
        return {name: reason for each in self._kept.get(execution_id, ()) for name, reason in each.unkept.items()}


class Rebuild(Struct, frozen=True):
    """A rebuild that had no copy of some names."""

    restored: EnvironmentRestored

    def past(self, values: KeptValues, *, is_allowed: bool = True) -> PastRebuild:
        """As the plan has it; without copies where these are not allowed to be loaded."""
        rebuild = ExecutionId(self.restored.event_id)
        if not is_allowed:
            lost = dict.fromkeys(self.restored.anew, NOT_ALLOWED)
            return PastRebuild(anew=self.restored.anew, absent=self.restored.absent, unkept=lost)
        return PastRebuild(
            anew=self.restored.anew,
            absent=self.restored.absent,
            kept=values.groups(rebuild),
            unkept=values.unkept(rebuild),
        )
