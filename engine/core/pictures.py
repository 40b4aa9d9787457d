"""Pictures as values: what a session keeps of one, its description as text, limits, and tokens by a provider's rule.

A picture's bytes are content of the store, named by digest. Only two sources make bytes that may leave this program
(`PictureContent`): the decoder, a confined process that writes the picture again from its pixels, and the store, for
what the decoder made earlier. Pure; must not know who decodes, keeps or sends.
"""

from __future__ import annotations

from math import ceil
from typing import Final, Literal, NewType

from msgspec import Struct

from .ids import BlobDigest
from .text import Exact, printable

PictureContent = NewType("PictureContent", bytes)
"""The bytes of a PNG or JPEG that the decoder wrote: without metadata, and within the limits below."""

LARGEST_BYTES: Final = 20_000_000
"""The longest file that is decoded."""
MOST_PIXELS: Final = 50_000_000
"""The most pixels of a picture that is decoded, as its header says."""
LONGEST_EDGE: Final = 1_568
"""The longest edge of a stored picture in pixels: Anthropic scales larger ones down, with a delay and no gain."""
MOST_BYTES: Final = 3_750_000
"""The most bytes of a stored picture: 5 MB as base64, Anthropic's limit, which is the strictest."""
MOST_SENT: Final = 100
"""The most pictures of one request: Anthropic's limit."""
MOST_SENT_BYTES: Final = 12_000_000
"""The most bytes of the pictures of one request: 16 MB as base64, below Google's limit of 20 MB for a request."""

HAS_SECRET: Final = "the file contains a secret"  # noqa: S105 -- a reason, no secret
"""Why a picture has no content, if its bytes spell a secret."""
StoredKind = Literal["image/png", "image/jpeg", ""]
"""The media type of a stored picture; empty if there is none."""
PNG: Final = "image/png"
JPEG: Final = "image/jpeg"
DECODED: Final = (PNG, JPEG, "image/gif", "image/webp")
"""The kinds that are decoded. Others, such as SVG, are told by name and size."""
_KB: Final = 1_000
_MB: Final = 1_000_000
_SIGNATURES: Final = {PNG: b"\x89PNG\r\n\x1a\n", JPEG: b"\xff\xd8\xff", "image/gif": b"GIF8", "image/webp": b"RIFF"}
TOKEN_PIXELS: Final = 750
"""How many pixels a token of a view's budget pays for: Anthropic's rule."""


class GivenPicture(Struct, frozen=True):
    """A picture as it came from a client or a statement, undecoded. `uri` is the client's; empty without one.

    With `pixels` it is scaled to at most so many.
    """

    name: str
    media_type: str
    data: bytes
    uri: str = ""
    pixels: int = 0


class Picture(Struct, frozen=True, kw_only=True):
    """A picture that a session keeps. Its `content` has `width` by `height` pixels and `size` bytes.

    Without content, `problem` says why, a clause, and `size` is that of the file that came. `digest` is the xxh3 hex of
    the file that came: equal files have equal digests, so replays compare it.
    """

    name: str
    media_type: StoredKind = ""
    content: BlobDigest | None = None
    width: int = 0
    height: int = 0
    size: int = 0
    digest: Exact = ""
    problem: str = ""


def description(picture: Picture) -> str:
    """Describe a picture in one line: `[picture plot.png, 800x600, 40 KB]`, and why a reader does not see it."""
    pixels = f", {picture.width}x{picture.height}" if picture.width else ""
    reason = f": {printable(picture.problem)}" if picture.problem else ""
    return f"[picture {printable(picture.name)}{pixels}, {size_text(picture.size)}{reason}]"


def size_text(size: int) -> str:
    """Write a number of bytes for people: `512 bytes`, `40 KB`, `3.2 MB`."""
    if size < _KB:
        return f"{size} bytes"
    return f"{size / _KB:.0f} KB" if size < _MB else f"{size / _MB:.1f} MB"


def kind_of(data: bytes) -> str | None:
    """Return the media type that a file's beginning tells, if pictures of that kind are decoded."""
    return next((kind for kind, signature in _SIGNATURES.items() if data.startswith(signature)), None)


def is_picture(media_type: str, data: bytes) -> bool:
    """Return whether stored bytes begin as a picture of that kind does: an imported log may name any content."""
    return media_type in (PNG, JPEG) and kind_of(data) == media_type and len(data) <= MOST_BYTES


# --- tokens ----------------------------------------------------------------------------------------------------------

PictureRule = Literal["anthropic", "google", "openai-tiles", "openai-patches"]
"""How a provider counts a picture."""
_ANTHROPIC_PIXELS: Final = TOKEN_PIXELS
"""Pixels of a token. https://docs.anthropic.com/en/docs/build-with-claude/vision"""
_GOOGLE_SMALL: Final = 384
_GOOGLE_TOKENS: Final = 258
"""Tokens of a tile, and of a whole picture with no longer edge than that.

https://ai.google.dev/gemini-api/docs/image-understanding
"""
_GOOGLE_TILE: Final = (256, 768)
_GOOGLE_SHARE: Final = 1.5
"""A tile's edge is the picture's shorter edge divided by this, within these limits."""
_TILE: Final = 512
_TILE_SHORT: Final = 768
_TILE_TOKENS: Final = 170
_TILE_BASE: Final = 85
"""OpenAI scales the shorter edge to 768 and counts tiles. https://platform.openai.com/docs/guides/images-vision"""
_PATCH: Final = 32
_MOST_PATCHES: Final = 1_536
_PATCH_RATE: Final = 2.46
"""Small models of OpenAI count patches; their factors are between 1.62 and 2.46."""


def picture_tokens(picture: Picture, rule: PictureRule) -> int:
    """Count the tokens of a picture as its provider does."""
    width, height = max(picture.width, 1), max(picture.height, 1)
    match rule:
        case "anthropic":
            return ceil(width * height / _ANTHROPIC_PIXELS)
        case "google":
            if max(width, height) <= _GOOGLE_SMALL:
                return _GOOGLE_TOKENS
            least, most = _GOOGLE_TILE
            edge = min(max(int(min(width, height) / _GOOGLE_SHARE), least), most)
            return _GOOGLE_TOKENS * ceil(width / edge) * ceil(height / edge)
        case "openai-tiles":
            scale = min(_TILE_SHORT / min(width, height), 1.0)
            return _TILE_BASE + _TILE_TOKENS * ceil(width * scale / _TILE) * ceil(height * scale / _TILE)
        case "openai-patches":
            patches = min(ceil(width / _PATCH) * ceil(height / _PATCH), _MOST_PATCHES)
            return ceil(patches * _PATCH_RATE)
