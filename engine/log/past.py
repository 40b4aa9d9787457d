"""The values of a rebuild: the plan and its steps, the differences found, and the fate of checkpoints.

`rebuild_plan` makes plans from a log, environments carry them out, and `comparison` finds the differences. Data only;
must not know how statements run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping

from msgspec import Struct, field

from ..core.errors import StoreError
from ..core.execution import Aspect, Ending, ExceptionInfo, ExecutionStatus
from ..core.ids import BlobDigest, ExecutionId
from ..core.text import Exact
from .events.nodes import OutlineTier, RevisionState
from .statements import RunOutcome, RunRequest, UpdatePayload


class ValueGroup(Struct, frozen=True):
    """Names whose values share objects, and one pickle of these values. Only an environment may load it."""

    names: tuple[Exact, ...]
    data: bytes


class Preserved(Struct, frozen=True, kw_only=True):
    """Copies of values as they were after a statement. `unkept` has names without a copy and the reason, a phrase.

    `pending`: more values of that statement are being pickled; `Environment.collect` returns them.
    """

    groups: tuple[ValueGroup, ...] = ()
    unkept: dict[str, str] = field(default_factory=dict[str, str])
    pending: bool = False


class PastQuestion(Struct, frozen=True, kw_only=True):
    """The question of a recorded answer. `title` is the call in words, empty if the call is not on the log."""

    ordinal: int
    operation: str
    argument_digest: str
    title: str = ""


class PastAnswer(Struct, frozen=True, kw_only=True):
    """A recorded answer to an effect: the JSON of a value, as content, or the exception that the statement saw.

    `withheld`: it contained a secret and was not kept. If the log does not say what was asked, `question` is None, and
    answers are matched by their order. For an answer about one file, `path` is its real path and `digest` the xxh3 hex
    of its content.
    """

    content: BlobDigest | None = None
    error: ExceptionInfo | None = None
    withheld: bool = False
    question: PastQuestion | None = None
    path: str = ""
    digest: str = ""


class PastRevision(Struct, frozen=True, kw_only=True):
    """The result of look number `look` at `path` in a step; see `RevisionAdopted`.

    A `digest` without content means that the content was not kept: it was too large, or had a secret (`withheld`).
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
    """Names whose values were kept together. Their pickle is `data` or content; neither if it is not kept.

    `dropped`: the session has dropped it since, unless another event names the same content. `size` is in bytes.
    """

    names: tuple[str, ...]
    content: BlobDigest | None
    dropped: bool = False
    size: int = 0
    data: bytes = b""


class PastExecution(Struct, frozen=True, kw_only=True):
    """A step: an execution with its recorded inputs.

    `again`: it runs again; otherwise its names come from kept values alone. `hindrance` is a phrase that says why a
    statement that was not stopped does not run again; empty if the reason is a secret. `bound`
    are the names that it added or changed, or may have changed; `unbound` those that it deleted. `kept` are copies of
    values after it, and `unkept` the names without a copy, with the reason. `revisions` are those that nodes adopted,
    None if the log is of a version that did not record them. `after_reading`: a model read the handles since the step
    before. `ticks` are the times of the ticks that it called, and `payloads` those that they applied or dropped.
    `record` is its outcome, None if the caller compares more than that. `acted`: it acted outside, so a re-run is
    likely to be stopped and to need the copies.
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
    payloads: tuple[PastPayload, ...] = ()
    record: Ending | None = None
    acted: bool = False


class PastPayload(Struct, frozen=True, kw_only=True):
    """A payload that a tick applied or dropped. Its data is `content`, None if that was not kept."""

    payload: UpdatePayload
    content: BlobDigest | None = None


class PastTick(Struct, frozen=True, kw_only=True):
    """A step: a tick at `now`, seconds since the epoch, with the revisions that it found.

    `payloads` are those that it applied or dropped, in the order in which they were prepared.
    """

    round_id: int
    now: float
    revisions: tuple[PastRevision, ...] = ()
    payloads: tuple[PastPayload, ...] = ()
    after_reading: bool = False


class PastLooks(Struct, frozen=True, kw_only=True):
    """A step that does not run again. Later steps may show the revisions that nodes adopted in it."""

    revisions: tuple[PastRevision, ...]


class PastRebuild(Struct, frozen=True, kw_only=True):
    """A step: an earlier rebuild that lacked copies of some names.

    The re-run gave the names in `anew` new values, which the later steps found; `kept` and `unkept` are of these. The
    names in `absent` were unbound.
    """

    anew: tuple[str, ...]
    absent: tuple[str, ...]
    kept: tuple[PastValues, ...] = ()
    unkept: dict[str, str] = field(default_factory=dict[str, str])


PastStep = PastExecution | PastTick | PastLooks | PastRebuild
"""One step of a plan."""


class RestorePlan(Struct, frozen=True, kw_only=True):
    """The steps by which a namespace is rebuilt, in the order of the log. `after_reading`: a model read after them.

    `tiers` says what outlined each content, by its xxh3 hex. From position `whole_from` of the steps on, no step is
    skipped: a statement that ends its worker ends the restore. The namespace already has the steps in `behind`, whose
    kept values still count.
    """

    steps: tuple[PastStep, ...] = ()
    behind: tuple[PastStep, ...] = ()
    whole_from: int | None = None
    after_reading: bool = False
    tiers: dict[str, OutlineTier] = field(default_factory=dict[str, OutlineTier])


Contents = Callable[[Collection[BlobDigest]], Awaitable[Mapping[BlobDigest, bytes | StoreError]]]
"""Returns contents by their digests, or the error of a damaged one. Missing contents are left out."""


class Divergence(Struct, frozen=True):
    """One difference between a record and a re-run: `before` and `after`, shortened, empty for nothing.

    `phrase` says the same and follows the statement's label.
    """

    aspect: Aspect
    before: str
    after: str
    phrase: str


class Differences(Struct, frozen=True, kw_only=True):
    """How a re-run differs from its record. `same` are names that certainly have the same content in both.

    `is_told`: the comparing caller reports the differences itself, so `Restored` names only what has no copy.
    """

    divergences: tuple[Divergence, ...] = ()
    same: frozenset[str] = frozenset()
    is_told: bool = False

    @property
    def phrases(self) -> tuple[str, ...]:
        """The phrase of each divergence."""
        return tuple(each.phrase for each in self.divergences)


Comparison = Callable[[PastExecution, RunOutcome], Differences]
"""Compares an execution with its re-run."""


class CheckpointNews(Struct, frozen=True, kw_only=True):
    """A checkpoint of the state after an execution was taken, or was `dropped`, for the reason in that phrase.

    `surplus`: it made room for newer ones. `seconds` is how long the namespace was paused. `shared` are phrases that
    say what the copy shares with other processes or lacks: child processes, the far ends of pipes and sockets, shared
    memory.
    """

    execution_id: ExecutionId
    seconds: float = 0.0
    shared: tuple[str, ...] = ()
    dropped: str = ""
    surplus: bool = False


class Restored(Struct, frozen=True, kw_only=True):
    """The result of a rebuild: how many executions ran again, and a sentence for each difference.

    The state before the first of these comes from the checkpoint after the execution `checkpoint`, if there is one.
    The names in `anew` had no copy and may have other values now; those in `absent` are unbound for the same reason.
    The next `preserve` returns the values of `anew`. `healed` are the divergences of statements whose names all have
    their recorded values again, from copies.
    """

    executions: int
    divergences: tuple[str, ...] = ()
    healed: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    checkpoint: ExecutionId | None = None
