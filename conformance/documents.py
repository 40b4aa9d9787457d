"""The vendored specifications that requirements quote, and the location of each quote.

A schema quote is located by a JSON pointer: it occurs in the `description` there, or in the JSON of the node, which is
how a schema forbids. A prose quote is located by a heading. Emphasis and line breaks are ignored.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from conformance.values import as_list, as_object, is_list

_FOLDER: Final = Path(__file__).parent / "specification"
_BINDING: Final = re.compile(r"\b(MUST|Must|must|REQUIRED|SHALL)\b")
_LINK: Final = re.compile(r"\[([^\]]+)\](?:\([^)]*\)|\[[^\]]*\])?")
_KEYWORDS: Final = frozenset({"$ref", "const", "discriminator", "enum", "format", "required", "type"})


@dataclass(frozen=True, slots=True)
class Source:
    """The location of a quote: a document, and a JSON pointer (schema) or a heading (prose)."""

    document: str
    place: str
    quote: str


@dataclass(frozen=True, slots=True)
class Document:
    """A vendored file."""

    name: str
    title: str
    version: str
    file: str
    link: str
    """A URL for people. `{place}` becomes the heading."""
    is_data: bool = False
    """Whether the file holds only expected results, so that each place in it is required."""

    @property
    def path(self) -> Path:
        return _FOLDER / self.file


_FORMATS: Final = "docs/conformance-formats.md#vectors"

OFFICIAL: Final = "mcp.official"
DOCUMENTS: Final = {
    document.name: document
    for document in (
        Document(
            "acp1.schema",
            "Agent Client Protocol 1, JSON Schema",
            "npm @agentclientprotocol/sdk 2.4.0, schema/v1/schema.json",
            "acp/v1/schema.json",
            "https://agentclientprotocol.com/protocol/v1/schema",
        ),
        Document(
            "acp1.unstable",
            "Agent Client Protocol 1, JSON Schema with what is not stable yet",
            "npm @agentclientprotocol/sdk 2.4.0, schema/v1/schema.unstable.json",
            "acp/v1/schema.unstable.json",
            "https://agentclientprotocol.com/protocol/v1/draft/schema",
        ),
        Document(
            "acp1.prose",
            "Agent Client Protocol 1, specification",
            "by commit, see conformance/specification/acp/v1/prose.md",
            "acp/v1/prose.md",
            "https://agentclientprotocol.com/protocol/v1/{place}",
        ),
        Document(
            "acp.remote",
            "Agent Client Protocol, proposal for remote transports (draft)",
            "by commit, see conformance/specification/acp/remote/prose.md",
            "acp/remote/prose.md",
            "https://agentclientprotocol.com/rfds/{place}",
        ),
        Document(
            "acp2.schema",
            "Agent Client Protocol 2 (draft), JSON Schema",
            "npm @agentclientprotocol/sdk 2.4.0, schema/v2/schema.json",
            "acp/v2/schema.json",
            "https://agentclientprotocol.com/protocol/v2/schema",
        ),
        Document(
            "vectors.view",
            "Events and the resulting View",
            "view-vectors/1, conformance/specification/vectors/view.json",
            "vectors/view.json",
            _FORMATS,
            is_data=True,
        ),
        Document(
            "vectors.positions",
            "The same events and the View, by the rule of the published document",
            "view-vectors/1, conformance/specification/vectors/view-positions.json",
            "vectors/view-positions.json",
            _FORMATS,
            is_data=True,
        ),
        Document(
            "vectors.cycles",
            "Events and the resulting request cycles",
            "cycle-vectors/1, conformance/specification/vectors/cycles.json",
            "vectors/cycles.json",
            _FORMATS,
            is_data=True,
        ),
        Document(
            "vectors.format",
            "Questions about vectors",
            "1, conformance/specification/vectors/format.md",
            "vectors/format.md",
            _FORMATS,
        ),
        Document(
            OFFICIAL,
            "Official conformance suite of the Model Context Protocol",
            "npm @modelcontextprotocol/conformance 0.2.0-alpha.12",
            "mcp/SOURCE.md",
            "https://github.com/modelcontextprotocol/conformance",
        ),
        *(
            document
            for version in ("2025-11-25", "2026-07-28")
            for document in (
                Document(
                    f"mcp.{version}.schema",
                    f"Model Context Protocol {version}, JSON Schema",
                    "npm @modelcontextprotocol/conformance 0.2.0-alpha.12, see conformance/specification/mcp/SOURCE.md",
                    f"mcp/{version}/schema.json",
                    f"https://modelcontextprotocol.io/specification/{version}/schema",
                ),
                Document(
                    f"mcp.{version}.prose",
                    f"Model Context Protocol {version}, specification",
                    f"by commit, see conformance/specification/mcp/{version}/prose.md",
                    f"mcp/{version}/prose.md",
                    f"https://modelcontextprotocol.io/specification/{version}/{{place}}",
                ),
            )
        ),
    )
}


def link(source: Source) -> str:
    """Return the URL of the page with the quote."""
    if source.place == "json-rpc":
        return "https://www.jsonrpc.org/specification"
    return DOCUMENTS[source.document].link.format(place=source.place)


@cache
def json_document(name: str) -> dict[str, Any]:
    """Load a vendored JSON document."""
    return json.loads(DOCUMENTS[name].path.read_text(encoding="utf-8"))


def resolve(document: object, pointer: str) -> Any:
    """Follow a JSON pointer (RFC 6901). Raises LookupError if it leads nowhere."""
    node: Any = document
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        node = as_list(node)[int(key)] if is_list(node) else as_object(node)[key]
    return node


def is_binding(source: Source) -> bool:
    """Whether the quote forbids something: it says MUST (NOT), REQUIRED or SHALL, or is a schema keyword.

    A keyword is quoted as JSON (`"const": "2.0"`, or `["cwd"]` at `/required`), because a description forbids nothing.
    A keyword that allows null does not bind.
    """
    document = DOCUMENTS[source.document]
    if _BINDING.search(source.quote) or document.is_data:
        return True
    return document.file.endswith(".json") and _is_keyword(source)


def quote_text(source: Source) -> str:
    """Return the quote as plain text: a sentence in quotation marks, without emphasis and link targets."""
    document = DOCUMENTS[source.document]
    if document.is_data or (document.file.endswith(".json") and _is_keyword(source)):
        return source.quote
    sentence = _LINK.sub(r"\1", source.quote.replace("**", ""))
    return f'"{sentence}"'


def _is_keyword(source: Source) -> bool:
    of_keyword = source.place.rpartition("/")[2] in _KEYWORDS
    try:
        quoted = json.loads(source.quote if of_keyword else f"{{{source.quote}}}")
    except ValueError:
        return False
    return "null" not in source.quote and (of_keyword or quoted.keys() <= _KEYWORDS)


def quote_exists(source: Source) -> bool:
    """Whether the quote occurs at its location. Raises LookupError for an unknown document or place."""
    document = DOCUMENTS[source.document]
    if document.file.endswith(".json"):
        node = resolve(json_document(source.document), source.place)
        texts = [str(as_object(node).get("description", "")), json.dumps(node)]
    else:
        texts = [_sections(document.name)[source.place]]
    return any(_plain(source.quote) in _plain(text) for text in texts)


@cache
def _sections(name: str) -> dict[str, str]:
    text = DOCUMENTS[name].path.read_text(encoding="utf-8")
    heads = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(heads[1::2], heads[2::2], strict=True))


def _plain(text: str) -> str:
    return " ".join(text.replace("**", "").split())
