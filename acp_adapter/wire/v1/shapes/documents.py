"""`document/didOpen`, `didChange`, `didSave`, `didClose` and `didFocus`: what a client says of what it has open.

Source: the types of the same names in the unstable part of ACP v1 for next edit suggestions (`dist/nes` of npm package
`@agentclientprotocol/sdk`, 1.9.0), which the official schema files leave out. Lines and characters count from 0,
characters in UTF-16 code units, because no other encoding is agreed upon. The session that each names may be one for
suggestions alone, so it is not read. Unsigned numbers are read as they come.
"""

from typing import Annotated

from pydantic import Field

from acp_adapter.wire.model import ForgivingModel

U32 = Annotated[int, Field(ge=0, lt=2**32)]


class Position(ForgivingModel):
    line: U32
    character: U32


class Range(ForgivingModel):
    """The end is behind the last character."""

    start: Position
    end: Position


class ContentChange(ForgivingModel):
    """Without a range, the text is the whole document's. A range that cannot be read is not taken for none."""

    strict_fields = frozenset({"range"})

    range: Range | None = None
    text: str


class DidOpenNotification(ForgivingModel):
    uri: str
    version: int
    text: str


class DidChangeNotification(ForgivingModel):
    uri: str
    version: int
    content_changes: list[ContentChange]


class DocumentNotification(ForgivingModel):
    """The params of didSave and didClose."""

    uri: str


class DidFocusNotification(ForgivingModel):
    uri: str
    version: int
