"""The result of one run of a statement as plain values: status, streams, exception, namespace diff, renders, artifacts.

The worker makes them, and they reach the log unchanged, on `ExecutionFinished`. Must not know how statements run.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from .ids import BlobDigest
from .text import Content, Exact, Named

ExecutionStatus = Literal["ok", "error", "timeout", "cancelled"]
"""How an execution ended: normally, with an exception, at its time limit, or because it was stopped."""
ReplayMode = Literal["recorded", "live", "dry"]
"""How statements run again: with recorded answers to their effects, with real effects, or up to the first statement
that asks for an effect."""
Aspect = Literal[
    "status", "exception", "stdout", "stderr", "value", "diff", "files read", "artifacts", "stopped effects"
]
"""An aspect in which two executions of one statement may differ. `stopped effects` are those that the later one asked
for and did not get."""
StatementKind = Literal["python", "meta"]
"""`python` is by the user or a model; `meta` is by the session, such as opening the attachments of a prompt."""
StatementNumber = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""The number of a statement on its branch, from 1. Decoding enforces 64 bits, because read models use that width."""

UNREAD: Final = "unread-"
"""The prefix of a digest that stands for the state of a file whose content was not read."""
LINK: Final = "link-"
"""The prefix of a digest that stands for a symbolic link; its content is the path that the link names."""
DIRECTORY: Final = "directory"
"""The digest of a directory, which has no content of its own."""
WORKER_DIED: Final = "WorkerDied"
"""The exception type of an execution whose process ended. The namespace is as before the statement."""
NOT_RUN: Final = "NotRun"
"""The exception type of an execution that no worker could run."""
INTERRUPTED: Final = "Interrupted"
"""The exception type of an execution during which the whole program died."""
STATEMENT_TIMEOUT: Final = "StatementTimeout"
"""The exception type of a statement that was stopped by its time limit."""
STATEMENT_CANCELLED: Final = "StatementCancelled"
"""The exception type of a statement that was stopped by a cancel."""
REPLAY_EFFECT: Final = "ReplayEffect"
"""The exception type of a re-run that was stopped from acting outside."""
LOOKED: Final = "looked at"
"""The beginning of each phrase about a look that the record does not answer."""


class TypeInfo(Struct, frozen=True, kw_only=True):
    """A value in a namespace diff: type name, shortened repr, and an estimated size in bytes or elements."""

    type_name: str
    short_repr: str
    size: int | None = None


class ChangeInfo(Struct, frozen=True, kw_only=True):
    """A name whose value changed: rebound to another object, or mutated in place.

    Digests are 128-bit xxh3 hex of the content, None if part of the content is unknown. Logs of earlier versions have
    64-bit digests, computed differently.
    """

    before: TypeInfo
    after: TypeInfo
    before_digest: Exact | None = None
    after_digest: Exact | None = None
    mutated: bool = False


class NamespaceDiff(Struct, frozen=True, kw_only=True):
    """The names that a statement added, changed and deleted, except those that begin with two underscores.

    `digests` are xxh3 hex of the content of added names, where it can be computed. `unknown` are names whose value may
    have changed invisibly, each with the reason, a clause like "a Socket cannot be compared"; they are in no other
    field. `deep` is False in logs of earlier versions, which did not follow changes into shared objects, and reported a
    set in another order as changed.
    """

    added: dict[str, TypeInfo] = field(default_factory=dict[str, TypeInfo])
    changed: dict[str, ChangeInfo] = field(default_factory=dict[str, ChangeInfo])
    deleted: tuple[Named, ...] = ()
    digests: dict[str, Exact] = field(default_factory=dict[str, Exact])
    unknown: dict[str, str] = field(default_factory=dict[str, str])
    deep: bool = False

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.deleted or self.unknown)


class ExceptionInfo(Struct, frozen=True, kw_only=True):
    """The exception of a failed statement: type, shortened message, and the traceback from the user's frame on."""

    type: Named
    message: str
    traceback: str = ""


class Captured(Struct, frozen=True, kw_only=True):
    """One output stream of an execution: the first 64 KiB as text, the total in bytes, and xxh3 hex of the whole.

    `text` was decoded from `kept_bytes` bytes, even if its end was cut or it was redacted later; None in older logs.
    """

    text: str = ""
    total_bytes: int = 0
    digest: Exact = ""
    kept_bytes: int | None = None

    @property
    def truncated(self) -> bool:
        """Whether the text is shorter than the output."""
        kept = len(self.text.encode("utf-8", "surrogatepass")) if self.kept_bytes is None else self.kept_bytes
        return self.total_bytes > kept


class Ending(Struct, frozen=True, kw_only=True):
    """The part of an execution's record that is compared between two runs. `pictures` are the digests of theirs."""

    status: ExecutionStatus
    value: str | None = None
    markdown: str = ""
    pictures: tuple[Exact, ...] = ()
    exception: ExceptionInfo | None = None
    stdout: Captured = field(default_factory=Captured)
    stderr: Captured = field(default_factory=Captured)
    diff: NamespaceDiff = field(default_factory=NamespaceDiff)


class Display(Struct, frozen=True, kw_only=True):
    """A node's render, in a statement's result because of `view` or `show`, or for a look from outside.

    The document has `lines` lines; those from `first_line` to `last_line` are shown, counted from 1 (None if none is).
    `budget` is in tokens, 0 for All. `state` is the document's `RevisionState`, empty for other nodes. `reason` says
    why the document has no content; it is empty if there is content. `freq` says how the node follows its source,
    empty if it does not. `revision` is the xxh3 hex of the content, `digest` that of the rendered text. `given` is True
    if `show` was given another policy than the node's own, or if the text refers to a later render.
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
    reason: str = ""
    freq: str = ""
    revision: Exact = ""
    digest: Exact = ""
    given: bool = False

    @property
    def identity(self) -> str:
        """What is equal for two renders of one handle only if both show the same text of the same content."""
        return f"{self.obj_id} {self.revision} {self.digest}"


class LeftOut(Struct, frozen=True):
    """The numbers of added and removed lines of a change that are not shown."""

    added: int
    removed: int


class TextChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One region of a file that changes, with context: its first line in the old text, from 1, and both texts.

    `old` is None if there was no file. With `left_out` it is the last region shown of a longer change, and may be cut.
    """

    line: int
    old: str | None
    new: str
    left_out: LeftOut | None = None


class Artifact(Struct, frozen=True, kw_only=True):
    """A file that an execution changed. Digests are xxh3 hex, empty for no file."""

    path: str
    before_digest: Exact = ""
    after_digest: Exact = ""


class KeptGroup(Struct, frozen=True, kw_only=True):
    """Values kept for a rebuild: names whose values share objects, and one pickle of these values.

    `size` is the pickle's size in bytes. A small pickle is `data`, a larger one a blob, `content`. A pickle with a
    secret is not kept: `withheld` is its digest.
    """

    names: tuple[Named, ...]
    content: BlobDigest | None = None
    size: int
    withheld: Exact = ""
    data: Content = b""


class Location(Struct, frozen=True, kw_only=True):
    """A place in a document: absolute path, and line counted from 1."""

    path: str
    line: int | None = None
