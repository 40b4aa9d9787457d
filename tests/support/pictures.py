"""Files of pictures for tests, made with Pillow: sound ones, broken ones, and bombs."""

from __future__ import annotations

import random
import struct
import zlib
from base64 import b64encode
from io import BytesIO
from typing import Any

from PIL import Image

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def png(width: int = 8, height: int = 6, color: tuple[int, ...] = (255, 0, 0), **options: Any) -> bytes:
    """A PNG of one colour; with four numbers it has transparency."""
    out = BytesIO()
    Image.new("RGB" if len(color) == 3 else "RGBA", (width, height), color).save(out, "PNG", **options)
    return out.getvalue()


def jpeg(image: Image.Image, **options: Any) -> bytes:
    out = BytesIO()
    image.save(out, "JPEG", **options)
    return out.getvalue()


def noise(width: int, height: int) -> Image.Image:
    """A picture that no format makes small."""
    return Image.frombytes("RGB", (width, height), random.Random(1).randbytes(width * height * 3))


def bomb(width: int = 40_000, height: int = 40_000) -> bytes:
    """A PNG of a few KB whose header promises far too many pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(1_000_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def opened(data: bytes) -> Image.Image:
    image = Image.open(BytesIO(data))
    image.load()
    return image


def image_block(data: bytes, media_type: str = "image/png", **fields: str) -> dict[str, Any]:
    """A content block of ACP and MCP."""
    return {"type": "image", "data": b64encode(data).decode(), "mimeType": media_type, **fields}
