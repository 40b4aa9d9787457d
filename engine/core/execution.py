"""What one run of a statement left behind, as plain values that travel from the worker to the log unchanged.

Owns the shapes of an Execution's parts (`statement-timeline` section 3: status, bounded streams, exception, namespace
diff). Must not know how statements are run. Written by the worker, kept on `ExecutionFinished`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from .ids import BlobDigest
from .text import Exact, Named

ExecutionStatus = Literal["ok", "error", "timeout", "cancelled"]
"""How an execution ended: by itself, by an exception, at its time limit, or because somebody stopped it."""
ReplayMode = Literal["recorded", "live", "dry"]
"""How statements run again: with the recorded answers to their effects, with the effects themselves, or as far as the
first statement that asks for one."""
Aspect = Literal[
    "status", "exception", "stdout", "stderr", "value", "diff", "files read", "artifacts", "stopped effects"
]
"""In what two executions of one statement may differ. `stopped effects` is what the later one was kept from."""
StatementKind = Literal["python", "meta"]
"""`python` is the user's or a model's; `meta` is the session's own, such as opening what a prompt had attached."""
StatementNumber = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""Which statement of its branch, from 1 on. Bounded where events are decoded: read models keep it in 64 bits."""

UNREAD: Final = "unread-"
"""How what stands for the digest of a file's content begins where that was not read: it names the file's state."""


class TypeInfo(Struct, frozen=True, kw_only=True):
    """A value as a namespace diff shows it: type name, capped repr, and a best-effort size in bytes or elements."""

    type_name: str
    short_repr: str
    size: int | None = None


class ChangeInfo(Struct, frozen=True, kw_only=True):
    """A name whose value changed: rebound (another object) or mutated in place.

    Digests are xxh3 hex of the content, of 128 bits, or None where not all of it could be told. Logs of earlier
    versions have some of 64 bits, of another reading of the content.
    """

    before: TypeInfo
    after: TypeInfo
    before_digest: Exact | None = None
    after_digest: Exact | None = None
    mutated: bool = False


class NamespaceDiff(Struct, frozen=True, kw_only=True):
    """Which names a statement added, changed and deleted. Names starting with two underscores are left out.

    `digests` has xxh3 hex of the content of those added names whose content could be digested. `unknown` has the names
    whose value the statement may have changed in a way that could not be seen, with the reason, a clause like "a Socket
    cannot be compared"; none of them is among the others. `deep` is False in logs of earlier versions, which did not
    follow a change into what values share, and took a set in another order for another one.
    """

    added: dict[str, TypeInfo] = field(default_factory=dict[str, TypeInfo])
    changed: dict[str, ChangeInfo] = field(default_factory=dict[str, ChangeInfo])
    deleted: tuple[Named, ...] = ()
    digests: dict[str, Exact] = field(default_factory=dict[str, Exact])
    unknown: dict[str, str] = field(default_factory=dict[str, str])
    deep: bool = False

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.deleted or self.unknown)


WORKER_DIED: Final = "WorkerDied"
"""The exception type of an execution whose process ended: the namespace is as it was before the statement."""
NOT_RUN: Final = "NotRun"
"""The exception type of an execution that no worker could run."""
INTERRUPTED: Final = "Interrupted"
"""The exception type of an execution whose end nobody saw, because the whole program ended before it."""
REPLAY_EFFECT: Final = "ReplayEffect"
"""The exception type of an execution that ran again and was kept from an act outside."""

LOOKED: Final = "looked at"
"""With this each phrase begins on a look that a recording does not answer."""


class ExceptionInfo(Struct, frozen=True, kw_only=True):
    """Why a statement failed: exception type, bounded message, and the traceback from the user's frame on."""

    type: Named
    message: str
    traceback: str = ""


class Captured(Struct, frozen=True, kw_only=True):
    """One output stream of one execution: the first 64 KiB as text, the total in bytes, xxh3 hex of the whole.

    `kept_bytes` is how many of them `text` was made of, whatever was taken out of it later; None in older logs.
    """

    text: str = ""
    total_bytes: int = 0
    digest: Exact = ""
    kept_bytes: int | None = None

    @property
    def truncated(self) -> bool:
        """Whether less was kept than was written."""
        kept = len(self.text.encode("utf-8", "surrogatepass")) if self.kept_bytes is None else self.kept_bytes
        return self.total_bytes > kept


class Ending(Struct, frozen=True, kw_only=True):
    """What a run came to, as far as two runs of one statement are compared."""

    status: ExecutionStatus
    value: str | None = None
    exception: ExceptionInfo | None = None
    stdout: Captured = field(default_factory=Captured)
    stderr: Captured = field(default_factory=Captured)
    diff: NamespaceDiff = field(default_factory=NamespaceDiff)


class Display(Struct, frozen=True, kw_only=True):
    """A node's render, in a statement's result because `view` or `show` asked for it, or for whoever looks at it.

    `first_line` and `last_line` are those shown, from 1, None for none; the document ends with line `lines`. `budget`
    is 0 for All. `state` is that of a document (`RevisionState`), empty for what is none. `freq` says how it follows
    its source, empty where it does not, or has none that changes. `revision` is xxh3 hex of the content, `digest` of
    the text as it was rendered. `given`: it is not the node at its own policy, but at one that `show` was given, or the
    reference to a later render.
    """

    obj_id: Exact
    title: str
    text: str
    tokens: int
    budget: int = 0
    lod: int = 0
    first_line: int | None = None
    last_line: int | None = None
    lines: int = 0
    state: Exact = ""
    freq: str = ""
    revision: Exact = ""
    digest: Exact = ""
    given: bool = False


class LeftOut(Struct, frozen=True):
    """How many lines of a change are added and removed behind the last that is shown."""

    added: int
    removed: int


class TextChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One region of a file that changes, with lines around it: its first line before, counted from 1, and both texts.

    `old` is None where there was no file. With `left_out` it is the last that is shown of a change, and may be cut.
    """

    line: int
    old: str | None
    new: str
    left_out: LeftOut | None = None


class Artifact(Struct, frozen=True, kw_only=True):
    """A file that an execution left otherwise than it found it. Digests are xxh3 hex, empty where there was no file."""

    path: str
    before_digest: Exact = ""
    after_digest: Exact = ""


class KeptGroup(Struct, frozen=True, kw_only=True):
    """Values that were kept for a rebuild: the names bound to them, which share objects, and their pickle.

    `size` is that of the pickle in bytes. A small one is `data`, a larger one a blob, `content`. One that held a secret
    is neither: `withheld` is then its digest.
    """

    names: tuple[Named, ...]
    content: BlobDigest | None = None
    size: int
    withheld: Exact = ""
    data: bytes = b""


class Location(Struct, frozen=True, kw_only=True):
    """A place in a document: absolute path and 1-based line."""

    path: str
    line: int | None = None
