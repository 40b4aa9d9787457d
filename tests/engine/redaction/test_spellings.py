"""Secrets that a text spells otherwise: coloured, over several lines, escaped by URLs, JSON and HTML, encoded."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.redaction import Redactor
from engine.redaction.spellings import reading
from tests.support.examples import examples

KEY = "sk-proj/9&A+b=C?dE<f>g'H\"i j~k!l"
REDACTOR = Redactor([KEY])
LONG = "sk-" + "".join(f"{number:x}Gh" for number in range(60))

SPELLED = {
    "coloured": KEY[:9] + "\x1b[01;31m\x1b[K" + KEY[9:20] + "\x1b[m\x1b[K" + KEY[20:],
    "a link": KEY[:9] + "\x1b]8;;http://x\x1b\\" + KEY[9:],
    "colours shown by repr": KEY[:9] + "\\x1b[31m" + KEY[9:],
    "colours in JSON": json.dumps(KEY[:9] + "\x1b[31m" + KEY[9:])[1:-1],
    "JSON of Go": json.dumps(KEY)[1:-1].replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
    "JSON in capitals": json.dumps(KEY)[1:-1].replace("<", "\\u003C").replace(">", "\\u003E"),
    "JSON with slashes": json.dumps(KEY)[1:-1].replace("/", "\\/"),
    "JSON in JSON": json.dumps(json.dumps(KEY)[1:-1].replace("&", "\\u0026"))[1:-1],
    "HTML": html.escape(KEY),
    "HTML by number": KEY.replace("&", "&#38;").replace("<", "&#x3C;").replace("'", "&apos;"),
    "URL of WHATWG": quote(KEY, safe="!$&'()*+,-._~;="),
    "URL with sub-delims and colon": quote(KEY, safe="!$&'()*+,;=:"),
    "URL with everything quoted": "".join(f"%{byte:02x}" for byte in KEY.encode()),
}


@pytest.mark.parametrize("how", SPELLED)
def test_a_spelled_secret_is_replaced_where_it_stands(how: str) -> None:
    text = f"before 100% {SPELLED[how]} & after"
    assert REDACTOR.holds(text)
    assert REDACTOR.redact(text) == "before 100% *** & after"
    assert REDACTOR.holds_in_json(json.dumps(text).encode())
    assert REDACTOR.may_change(json.dumps(text).encode())
    assert REDACTOR.storable(text.encode()) is None


@pytest.mark.parametrize("how", SPELLED)
def test_a_spelled_secret_does_not_leave_in_pieces(how: str) -> None:
    text = f"before {SPELLED[how]} after"
    for size in (1, 3, 7):
        shown, rest = "", ""
        for start in range(0, len(text), size):
            piece, rest = REDACTOR.redact_piece(rest + text[start : start + size])
            shown += piece
        assert shown + REDACTOR.redact(rest) == "before *** after"


@pytest.mark.parametrize("columns", [40, 64, 76])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n", "\\\\n"])
def test_base64_in_lines_is_found(columns: int, end: str) -> None:
    encoded = base64.b64encode(f"KEY={LONG}\n".encode()).decode()
    text = end.join(encoded[at : at + columns] for at in range(0, len(encoded), columns))
    shown = Redactor([LONG]).redact(f"all:\n{text}{end}")
    assert len(shown) < 30
    assert "***" in shown


def test_base64_of_a_value_without_the_space_around_it_is_found() -> None:
    redactor = Redactor([f"{KEY}\n"])
    assert "***" in redactor.redact(base64.b64encode(KEY.encode()).decode())
    assert "***" in redactor.redact(quote(KEY, safe=""))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-32-be", "latin-1", "cp1252"])
def test_a_file_in_another_encoding_that_holds_a_secret_is_not_stored(encoding: str) -> None:
    key = "schlüssel-für-9"
    redactor = Redactor([key])
    assert redactor.storable(f"x\nKEY={key}\n".encode(encoding)) is None
    assert redactor.storable("x\nKEY=keiner-für-9\n".encode(encoding)) is not None


def test_what_only_looks_spelled_stays_as_it_is() -> None:
    text = "100%41 \\u0041 a\\/b &amp; \x1b[31mred\x1b[m QUJDREVGR0hJSktMTU5P\nUFFS"
    assert REDACTOR.redact(text) == text


@given(
    before=st.text(max_size=20),
    after=st.text(max_size=20),
    spelled=st.lists(st.sampled_from(("%", "u", "&", "colour", "")), min_size=len(KEY), max_size=len(KEY)),
)
@examples(1)
def test_however_each_character_is_spelled_the_secret_goes_and_the_rest_stays(
    before: str, after: str, spelled: list[str]
) -> None:
    ways = {"%": "%{:02X}", "u": "\\u{:04x}", "&": "&#{};"}
    parts = [
        ways[how].format(ord(char)) if how in ways else ("\x1b[1m" if how else "") + char
        for char, how in zip(KEY, spelled, strict=True)
    ]
    text = f"{before} {''.join(parts)} {after}"
    assert KEY not in reading(REDACTOR.redact(text)).text
    assert REDACTOR.redact(text).startswith(before)
    assert REDACTOR.redact(text).endswith(after)


@given(st.text("a%41\\u0&;#x\x1b[m/\n", max_size=60))
@examples(2)
def test_every_place_of_a_reading_is_one_of_the_text(text: str) -> None:
    read = reading(text)
    places = [read.place(at) for at in range(len(read.text))]
    ends = [read.end(at) for at in range(1, len(read.text) + 1)]
    assert all(0 <= place < end <= len(text) for place, end in zip(places, ends, strict=True))
    assert places == sorted(places)
    assert ends == sorted(ends)
