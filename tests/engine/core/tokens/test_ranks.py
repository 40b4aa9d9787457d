"""The packaged ranks are the published ones, and the encoding built from them is tiktoken's own."""

from __future__ import annotations

import base64
import hashlib
import inspect
import zlib
from pathlib import Path

import pytest
import tiktoken
import tiktoken_ext.openai_public as published

from engine.core.tokens import ranks
from engine.core.tokens.make_ranks import tokens_of


@pytest.fixture(scope="module")
def raw() -> bytes:
    """The published `.tiktoken` file, rebuilt from the packed one."""
    table = ranks.unpack(ranks.packaged())
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in table.items())


def test_packaged_ranks_are_the_published_file_to_the_byte(raw: bytes) -> None:
    assert hashlib.sha256(raw).hexdigest() == ranks.RAW_SHA256
    assert ranks.RAW_SHA256 in inspect.getsource(published.o200k_base)


def test_packed_are_the_lengths_and_then_the_tokens() -> None:
    assert zlib.decompress(ranks.pack([b"a", b"\xff" * 255, b"bc"])) == b"\x01\xff\x02" + b"a" + b"\xff" * 255 + b"bc"


def test_another_file_is_refused_when_packing(raw: bytes) -> None:
    with pytest.raises(ValueError, match="not the published"):
        tokens_of(raw[:-1])


def test_the_notice_names_the_source_the_licence_and_both_hashes() -> None:
    notice = (Path(ranks.__file__).parent / "data" / "NOTICE").read_text(encoding="utf-8")
    packed = hashlib.sha256(ranks.packaged()).hexdigest()
    for said in ("gpt-tokenizer 4.0.0", "MIT License", ranks.RAW_SHA256, packed):
        assert said in notice


@pytest.mark.slow
def test_ids_equal_those_of_tiktoken_built_its_own_way(
    raw: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
    (tmp_path / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()).write_bytes(raw)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    settings = published.o200k_base()
    assert settings["pat_str"] == ranks.PATTERN
    stock, ours = tiktoken.Encoding(**settings), ranks.encoding()
    assert ours.special_tokens_set == stock.special_tokens_set
    assert ours.n_vocab == stock.n_vocab
    for path in sorted(Path(ranks.__file__).parents[1].rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert ours.encode_ordinary(text) == stock.encode_ordinary(text)
    assert ours.decode(list(range(1000))) == stock.decode(list(range(1000)))
    odd = "naïve 漢字 \u0000 \r\n\t  x😀'll <|endoftext|> 12345678 ///\n\n  y"
    assert ours.encode_ordinary(odd) == stock.encode_ordinary(odd)
