"""Content by its digest: how it is named, packed and unpacked.

Must not know where it is kept. Used by the stores, by export and by import.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

from ...core.errors import InvalidRequestError, StoreError
from ...core.ids import BlobDigest

MAX_BLOB: Final = 512 << 20
"""Bytes of content that one blob may hold; SQLite keeps at most 10^9 bytes in one row."""
_LEVEL: Final = 1  # because the writer compresses while commits wait: three times as fast as 6 for 15 % more bytes
_SAMPLE: Final = 64 << 10
_LARGE: Final = 1 << 20
"""From so many bytes on a sample decides: of what hardly gets smaller, 50 MB take 2 seconds of every commit's time."""
_WORTH: Final = 0.9
"""What a sample has to shrink to."""

_NAME: Final = re.compile("blake2b-[0-9a-f]{40}")


def digest_of(data: bytes) -> BlobDigest:
    """`blake2b-` and 40 hex digits. Raises InvalidRequestError for more than MAX_BLOB bytes."""
    if len(data) > MAX_BLOB:
        raise InvalidRequestError(f"content of {len(data)} bytes is too large to keep; the limit is {MAX_BLOB}")
    from hashlib import blake2b  # here, because it loads OpenSSL, which costs a start-up 2 ms

    return BlobDigest(f"blake2b-{blake2b(data, digest_size=20).hexdigest()}")


def names_in(json: str) -> tuple[BlobDigest, ...]:
    """The digests that an event's JSON holds anywhere, each once, in order.

    Looked for in the text and not in certain fields, because freeing what a field of a later version still names
    would lose it, while keeping what is only quoted costs some space.
    """
    if "blake2b-" not in json:
        return ()
    return tuple(dict.fromkeys(map(BlobDigest, _NAME.findall(json))))


def pack(data: bytes) -> bytes:
    return zlib.compress(data, _LEVEL if _is_worth_it(data) else zlib.Z_NO_COMPRESSION)


def _is_worth_it(data: bytes) -> bool:
    if len(data) < _LARGE:
        return True
    # From the middle, because a pickle of arrays begins with what can be compressed.
    start = (len(data) - _SAMPLE) // 2
    return len(zlib.compress(data[start : start + _SAMPLE], _LEVEL)) < _WORTH * _SAMPLE


def unpack(digest: BlobDigest, packed: bytes) -> bytes:
    """The content. Raises StoreError where it is not what the digest says."""
    try:
        data = zlib.decompress(packed)
    except zlib.error as error:
        raise StoreError(f"content {digest} is damaged: {error}; restore the store from a copy") from error
    if digest_of(data) != digest:
        raise StoreError(f"content {digest} is damaged: its digest differs; restore the store from a copy")
    return data
