"""The packaged o200k_base ranks: one length byte per token, then all token bytes, zlib-compressed.

Owns packing and unpacking, and the `tiktoken.Encoding` built from the ranks. tiktoken alone would download its ranks at
run time. Used by `counter`, `doctor`, and `make_ranks`, which rebuilds the package data.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import tiktoken

TOKENS: Final = 199_998
"""Mergeable tokens of o200k_base; their ranks are exactly 0..TOKENS-1."""
RAW_SHA256: Final = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""The hash of `o200k_base.tiktoken`; `expected_hash` in `tiktoken_ext/openai_public.py`."""
DATA_FILE: Final = "o200k_base.bin.z"

# Copied because tiktoken_ext.openai_public offers the pattern only together with the download. A test compares the two.
_UPPER: Final = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER: Final = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CONTRACTION: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERN: Final = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
_SPECIAL: Final = {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018}


def pack(tokens: Sequence[bytes]) -> bytes:
    """Pack tokens of 1 to 255 bytes, in the order of their ranks."""
    return zlib.compress(bytes(map(len, tokens)) + b"".join(tokens), 9)


def unpack(packed: bytes) -> dict[bytes, int]:
    """Return the rank of each token from packed form."""
    data = zlib.decompress(packed)
    field = [f"{size}s" for size in range(256)]
    layout = "".join([field[size] for size in data[:TOKENS]])
    # A private Struct, because the module's functions cache those they make: 7 MB for this one.
    return {token: rank for rank, token in enumerate(struct.Struct(layout).unpack_from(data, TOKENS))}


def packaged() -> bytes:
    """Return the packed ranks of this package."""
    return files(__name__.rpartition(".")[0]).joinpath("data", DATA_FILE).read_bytes()


def encoding() -> tiktoken.Encoding:
    """Build an encoding from the packaged ranks: 150 to 300 ms and about 50 MB, so build it once.

    It cannot be pickled.
    """
    # Imported here, because only the worker counts tokens, and the host must start without this cost.
    import tiktoken

    table = unpack(packaged())
    built = tiktoken.Encoding("o200k_base", pat_str=PATTERN, mergeable_ranks=table, special_tokens=_SPECIAL)
    # The encoder has its own copy. tiktoken keeps this one only for pickling: 25 MB in every worker.
    table.clear()
    return built
