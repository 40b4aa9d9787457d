"""What happened to context objects: method calls, changes, ticks, and the files behind them."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import field

from ..ids import ObjId
from ..text import Exact
from .base import Event

TickKind = Literal["sync", "periodic", "async", "group"]
FileChangeKind = Literal["modified", "created", "deleted", "unreadable"]


class MethodCalled(Event, frozen=True, kw_only=True):
    """A mutating method of a node was called. Arguments are bounded reprs; digests are those of `GetDigest`."""

    kind: ClassVar[str] = "method_called"
    from_worker: ClassVar[bool] = True

    obj_id: ObjId
    obj_type: Exact
    method: Exact
    args: tuple[str, ...] = ()
    kwargs: dict[str, str] = field(default_factory=dict[str, str])
    before_digest: Exact = ""
    after_digest: Exact = ""


class NodeChanged(Event, frozen=True, kw_only=True):
    """A node shows something else than before; `delta` is the line that the change feed shows."""

    kind: ClassVar[str] = "node_changed"
    from_worker: ClassVar[bool] = True

    obj_id: ObjId
    obj_type: Exact
    delta: str


class TickApplied(Event, frozen=True, kw_only=True):
    """A tick of `tick_kind` changed the node in the Round `turn_id`."""

    kind: ClassVar[str] = "tick_applied"
    from_worker: ClassVar[bool] = True

    obj_id: ObjId
    tick_kind: TickKind
    turn_id: int
    delta: str


class FileChanged(Event, frozen=True, kw_only=True):
    """A file behind a running node was seen to have changed at a tick. Digests are xxh3 hex, empty for no content."""

    kind: ClassVar[str] = "file_changed"
    from_worker: ClassVar[bool] = True

    path: str
    change: FileChangeKind
    before_digest: Exact = ""
    after_digest: Exact = ""
    delta: str = ""


NodeEvent = MethodCalled | NodeChanged | TickApplied | FileChanged
