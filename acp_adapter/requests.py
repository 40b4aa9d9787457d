"""What a client asks for, whatever version of the protocol it speaks: the params that handlers get.

Plain values without behaviour. Made by the codec of the connection's version (`acp_adapter.wire`), taken by handlers.
Must not know how anything looks on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:  # of the session stage
    from engine import McpServer


class Initialize(Struct, frozen=True):
    """`version` is the newest version of the protocol that the client speaks.

    `terminals`: it draws terminals for what the agent runs by itself. `reads_files` and `writes_files`: it can be asked
    for the text that it holds of a file, and to put one in its place.
    """

    version: int
    terminals: bool = False
    reads_files: bool = False
    writes_files: bool = False


class Authenticate(Struct, frozen=True):
    method_id: str


class NewSession(Struct, frozen=True):
    """A session in `cwd`, with these MCP servers."""

    cwd: str
    directories: tuple[str, ...] = ()
    servers: tuple[McpServer, ...] = ()


class SessionRef(Struct, frozen=True):
    """The session that something is wanted of."""

    session_id: str


class OpenSession(Struct, frozen=True):
    """A session that was closed, to go on in these directories and with these MCP servers."""

    session_id: str
    cwd: str
    directories: tuple[str, ...] = ()
    servers: tuple[McpServer, ...] = ()


class ListSessions(Struct, frozen=True):
    """The sessions in `cwd`, or all of them; `cursor` is where the last page ended."""

    cwd: str | None = None
    cursor: str | None = None


class SetMode(Struct, frozen=True):
    session_id: str
    mode: str


class SetOption(Struct, frozen=True):
    """`option` is the id that the client was offered, `value` whatever it chose."""

    session_id: str
    option: str
    value: str | bool


class Position(Struct, frozen=True):
    """A place in a document: `line` from 0, and `character` in it from 0, in UTF-16 code units."""

    line: int
    character: int


class DocumentChange(Struct, frozen=True):
    """What stands from `start` up to `end` now; without these, in the whole document."""

    text: str
    start: Position | None = None
    end: Position | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole text."""
        return self.start is None


class DocumentOpened(Struct, frozen=True):
    uri: str
    version: int
    text: str


class DocumentChanged(Struct, frozen=True):
    """Each of `changes` is about the text that those before it have left."""

    uri: str
    version: int
    changes: tuple[DocumentChange, ...]


class DocumentRef(Struct, frozen=True):
    """The document that something is said of."""

    uri: str


class DocumentFocused(Struct, frozen=True):
    uri: str
    version: int


class Text(Struct, frozen=True):
    text: str


class Link(Struct, frozen=True):
    """A resource that the agent can read itself."""

    uri: str
    name: str
    media_type: str | None = None
    title: str | None = None
    description: str | None = None
    size: int | None = None


class Document(Struct, frozen=True):
    """A text resource that came with the prompt."""

    uri: str
    text: str
    media_type: str | None = None


class Binary(Struct, frozen=True):
    """A resource that came with the prompt and is no text."""

    uri: str


class Media(Struct, frozen=True):
    """A picture or a sound; `kind` is the protocol's word for it."""

    kind: str


Content = Text | Link | Document | Binary | Media


class Prompt(Struct, frozen=True):
    """What a person says. `meta` is what the client added for programs that know it."""

    session_id: str
    content: tuple[Content, ...]
    meta: Mapping[str, Any] | None = None
