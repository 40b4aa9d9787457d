"""What speaks one version of the protocol: the Protocols that a codec implements. One package for each version.

A codec stands between JSON and the plain values of `requests` and `replies`, and turns what happens in a session into
notifications and questions. Must not know any version. Implemented by `wire.v1`; used by the connection, its
conversations and its peer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # of the session stage
    from acp_adapter.facts import Facts
    from acp_adapter.wire.shown import Shown
    from engine import PermissionAnswer, PermissionQuestion, ReasoningStreamed, StatementRerun, TextStreamed, ToolCallId
    from engine.log.events import AnyEvent

Json = dict[str, Any]


Readers = Mapping[str, Callable[[object], Any]]
"""By method, how its params are read."""

Writers = Mapping[str, Callable[[Any], Json]]
"""By method, how its result is written; a method that answers nothing is not there."""


class Replay(Protocol):
    """Updates to send, in order; once."""

    @property
    def shown(self) -> Shown:
        """What has been shown when all of them are sent."""
        ...

    def __iter__(self) -> Iterator[Json]: ...


class UpdateWriter(Protocol):
    """What happens in a session, as the `update` of a `session/update`. Pure: what has been shown goes in and out."""

    def event_updates(
        self, event: AnyEvent, shown: Shown, facts: Facts, *, is_live: bool
    ) -> tuple[Shown, Sequence[Json]]:
        """What to send for an event, and what has been shown then. `is_live`: messages were streamed already."""
        ...

    def replay(self, events: Sequence[AnyEvent], facts: Facts, shown: Shown) -> Replay:
        """What draws the state that a log ends in, for a session that is loaded; `shown` is where it begins."""
        ...

    def message_update(self, piece: TextStreamed | ReasoningStreamed) -> Json:
        """A piece of a message."""
        ...

    def output_updates(self, call: ToolCallId, new: str, text: str, shown: Shown) -> Sequence[Json]:
        """What a running statement or command has printed: what is new, and all so far. Nothing once it has ended."""
        ...

    def rerun_update(self, rerun: StatementRerun) -> Json:
        """Which earlier statement runs again so that its names are there."""
        ...

    def commands_update(self) -> Json:
        """The slash commands that there are."""
        ...


class PermissionCodec(Protocol):
    """Questions for permission, and their answers."""

    def write_question(self, session_id: str, question: PermissionQuestion, facts: Facts) -> Json:
        """The params of `session/request_permission`."""
        ...

    def read_answer(self, result: object) -> PermissionAnswer:
        """What the user chose; whatever is not clearly an approval is none. Raises WireShapeError."""
        ...


class FilesCodec(Protocol):
    """What the client is asked about files, and its answers."""

    def write_reading(self, session_id: str, path: str) -> Json:
        """The params of `fs/read_text_file`, for all of the file at an absolute path."""
        ...

    def read_text(self, result: object) -> str:
        """The text that the client holds. Raises WireShapeError."""
        ...

    def write_writing(self, session_id: str, path: str, text: str) -> Json:
        """The params of `fs/write_text_file`."""
        ...

    def read_written(self, result: object) -> None:
        """Raises WireShapeError."""
        ...


class Codec(Protocol):
    """One version of the protocol."""

    @property
    def version(self) -> int: ...

    @property
    def package(self) -> str:
        """The package of its modules; each of them is loaded when it is first used."""
        ...

    @property
    def terminals(self) -> bool:
        """Whether the client draws terminals for what the agent runs."""
        ...

    def for_client(self, *, terminals: bool) -> Codec:
        """The same for a client that can do this."""
        ...

    @property
    def updates(self) -> UpdateWriter: ...

    @property
    def permissions(self) -> PermissionCodec: ...

    @property
    def files(self) -> FilesCodec: ...

    def read_params(self, method: str, params: object) -> Any:
        """A value of `requests`. Raises WireShapeError."""
        ...

    def write_result(self, method: str, result: Any) -> Json:
        """The JSON of a value of `replies`."""
        ...
