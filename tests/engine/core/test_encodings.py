"""What is text is decoded and comes back as the same bytes; line ends are told and made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.encodings import UTF_8, decode, with_line_ends


@given(
    st.binary(max_size=60)
    | st.text(max_size=40).map(str.encode)
    | st.text(max_size=20).map(lambda t: t.encode("utf-16"))
)
def test_what_is_decoded_is_encoded_to_the_same_bytes(data: bytes) -> None:
    found = decode(data)
    assert found is None or found.encoding.encode(found.text) == data


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfa\n", "a\n".encode("utf-16"), b"\xfe\xff\0a", b"caf\xe9"])
def test_changed_text_keeps_mark_and_byte_order(data: bytes) -> None:
    found = decode(data)
    changed = found.encoding.encode(found.text + "é")
    assert changed.startswith(data)
    assert decode(changed) == (found.text + "é", found.encoding)


def test_what_an_encoding_cannot_hold_is_an_error() -> None:
    latin = decode(b"caf\xe9")
    with pytest.raises(UnicodeEncodeError):
        latin.encoding.encode("€")
    with pytest.raises(UnicodeEncodeError):
        UTF_8.encode("\udc80")


def test_line_ends_are_made_and_a_mixture_is_left_alone() -> None:
    mixed = "a\r\nb\nc\r"
    assert with_line_ends(mixed, "LF") == "a\nb\nc\r"
    assert with_line_ends(mixed, "CRLF") == "a\r\nb\r\nc\r"
    assert with_line_ends(mixed, "mixed LF and CRLF") == with_line_ends(mixed, "") == mixed
