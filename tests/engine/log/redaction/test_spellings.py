"""Every spelling of a secret that `docs/configuration.md` names: whole, in pieces, and cut."""

from __future__ import annotations

import base64
import html
import json
import random
import shlex
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.toolbox import attribute
from engine.log.redaction import Redactor
from engine.log.redaction.spellings import fold, reading
from tests.support.examples import examples

KEY = "sk-proj/9&A+b=C?dE<f>g'H\"i j~k!l"
REDACTOR = Redactor([KEY])
LONG = "sk-" + "".join(f"{number:x}Gh" for number in range(60))
LINK = "\x1b]8;;http://x\x1b\\"
LOOKS_SPELLED = ("ab%41cdefghi", "ab&amp;cdefghi", "ab\\u0041cdefghi", "ab\\/cdefghi", "C:\\new\\x41\\table")
FOREIGN = "geheim-Ünïcode-Schlüssel-9-🔑"

SPELLED = {
    "coloured": KEY[:9] + "\x1b[01;31m\x1b[K" + KEY[9:20] + "\x1b[m\x1b[K" + KEY[20:],
    "coloured with C1": KEY[:9] + "\x9b31m" + KEY[9:],
    "a link": KEY[:9] + LINK + KEY[9:],
    "colours shown by repr": KEY[:9] + "\\x1b[31m" + KEY[9:],
    "colours in JSON": json.dumps(KEY[:9] + "\x1b[31m" + KEY[9:])[1:-1],
    "colours in JSON in capitals": json.dumps(KEY[:9] + "\x1b[31m" + KEY[9:])[1:-1].replace("001b", "001B"),
    "JSON of Go": json.dumps(KEY)[1:-1].replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
    "JSON in capitals": json.dumps(KEY)[1:-1].replace("<", "\\u003C").replace(">", "\\u003E"),
    "JSON with slashes": json.dumps(KEY)[1:-1].replace("/", "\\/"),
    "JSON in JSON": json.dumps(json.dumps(KEY)[1:-1].replace("&", "\\u0026"))[1:-1],
    "JSON in JSON in JSON": json.dumps(json.dumps(json.dumps(KEY)[1:-1])[1:-1])[1:-1],
    "HTML": html.escape(KEY),
    "HTML twice": html.escape(html.escape(KEY)),
    "HTML in JSON of Go": json.dumps(html.escape(KEY))[1:-1].replace("&", "\\u0026"),
    "HTML by number": KEY.replace("&", "&#38;").replace("<", "&#x3C;").replace("'", "&apos;"),
    "URL of WHATWG": quote(KEY, safe="!$&'()*+,-._~;="),
    "URL with sub-delims and colon": quote(KEY, safe="!$&'()*+,;=:"),
    "URL with everything quoted": "".join(f"%{byte:02x}" for byte in KEY.encode()),
    "URL in a URL": quote(quote(KEY, safe=""), safe=""),
    "a form": quote_plus(KEY),
    "lines": KEY[:12] + "\n" + KEY[12:],
    "lines at a blank": KEY.replace(" ", "\r\n  "),
    "quoted lines": KEY[:12] + "\n> " + KEY[12:],
    "lines of a shell": KEY[:12] + "\\\n" + KEY[12:],
    "quoted by a shell": shlex.quote(KEY)[1:-1],
    "escaped by a shell": "".join(char if char.isalnum() else f"\\{char}" for char in KEY),
    "hexadecimal": KEY.encode().hex(),
    "an identifier": attribute(KEY),
    "octal": "".join(f"\\{byte:03o}" for byte in KEY.encode()),
}


SHOWN = {"a link": f"***{LINK}***"}
"""What is left of those with a text in between that is not the secret's."""


def shown_in_pieces(redactor: Redactor, pieces: Sequence[str]) -> str:
    shown, rest = "", ""
    for text in pieces:
        piece, rest = redactor.redact_piece(rest + text)
        shown += piece
    return shown + redactor.redact(rest)


@pytest.mark.parametrize("how", SPELLED)
def test_a_spelled_secret_is_replaced_where_it_stands(how: str) -> None:
    text = f"before 100% {SPELLED[how]} & after"
    assert REDACTOR.holds(text)
    assert REDACTOR.redact(text) == f"before 100% {SHOWN.get(how, '***')} & after"
    assert REDACTOR.holds_in_json(json.dumps(text).encode())
    assert REDACTOR.storable(text.encode()) is None
    if how != "coloured with C1":  # which is two bytes in UTF-8 alone
        assert REDACTOR.storable(text.encode("utf-16")) is None


@pytest.mark.parametrize("how", SPELLED)
def test_a_spelled_secret_does_not_leave_in_pieces(how: str) -> None:
    text = f"before {SPELLED[how]} after"
    for size in (1, 3, 7):
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        assert shown_in_pieces(REDACTOR, pieces) == f"before {SHOWN.get(how, '***')} after"
    for at in range(len(text)):
        assert shown_in_pieces(REDACTOR, (text[:at], text[at:])) == f"before {SHOWN.get(how, '***')} after"


@pytest.mark.parametrize(
    "between",
    [
        "\x1b]0;x;touch${IFS}EVIL;\x07",
        "\\x1b]0;x;touch EVIL;\\x07",
        "\x1bPq;touch EVIL;\x1b\\",
        "\x1b]8;;file:///My Files\x1b\\",
        "\x1b[;>1m",
        "\x1b[31m\x1b]2;touch EVIL\x07\n",
        "\\u001b]0;touch EVIL;\\u0007",
    ],
)
def test_nothing_that_a_shell_would_run_is_hidden_with_a_secret(between: str) -> None:
    text = f"echo {KEY[:9]}{between}{KEY[9:]}"
    assert REDACTOR.redact(text) == f"echo ***{between}***"
    inner = f"echo {KEY[:9]}\x1b]0;{KEY}\x07{KEY[9:]}"
    assert REDACTOR.redact(inner) == "echo ***\x1b]0;***\x07***"


@pytest.mark.parametrize("columns", [9, 76])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n", "\\\\n", "\n  ", "\n> ", "\x1b[0m\n\x1b[32m"])
def test_base64_in_lines_is_found(columns: int, end: str) -> None:
    encoded = base64.b64encode(f"KEY={LONG}\n".encode()).decode()
    text = end.join(encoded[at : at + columns] for at in range(0, len(encoded), columns))
    shown = Redactor([LONG]).redact(f"all:\n{text}{end}")
    assert len(shown) < 40
    assert "***" in shown


ENCODED: dict[str, Callable[[str], bytes]] = {
    "UTF-8": str.encode,
    "UTF-16": lambda text: text.encode("utf-16-le"),
    "UTF-16 of the other order": lambda text: text.encode("utf-16-be"),
    "JSON": lambda text: json.dumps({"key": text}).encode(),
    "JSON in Unicode": lambda text: json.dumps([text], ensure_ascii=False).encode(),
}


@pytest.mark.parametrize("key", [KEY, LONG, FOREIGN])
@pytest.mark.parametrize("how", ENCODED)
def test_base64_of_text_around_a_value_is_found(key: str, how: str) -> None:
    redactor = Redactor([key])
    for before in ("", "x", "xy"):
        encoded = base64.b64encode(ENCODED[how](f"{before}{key};\n")).decode()
        shown = redactor.redact(f"({encoded})")
        assert "***" in shown
        assert len(shown) < 40


@given(
    key=st.text("abAB01+/=-%&;\\", min_size=8, max_size=40).filter(lambda key: len(fold(key.encode())) >= 8),
    before=st.text("abc xyz:,", max_size=80),
    columns=st.sampled_from((57, 64, 76)),
    cuts=st.lists(st.integers(0, 200), max_size=8),
    spelling=st.sampled_from(("base64", "url", "json", "html", "plain")),
)
@examples(1)
def test_pieces_show_nothing_that_the_whole_would_not(
    key: str, before: str, columns: int, cuts: list[int], spelling: str
) -> None:
    redactor = Redactor([key])
    spell: dict[str, Callable[[str], str]] = {
        "base64": lambda text: base64.b64encode(text.encode()).decode(),
        "url": lambda text: quote(text, safe=""),
        "json": lambda text: json.dumps(json.dumps(text)),
        "html": lambda text: html.escape(html.escape(text)),
        "plain": str,
    }
    spelled = spell[spelling](f"{before}{key} and so on")
    text = "\n".join(spelled[at : at + columns] for at in range(0, len(spelled), columns))
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    whole = redactor.redact(text)
    assert not redactor.holds(whole)
    for pieces in ([text[start:end] for start, end in pairwise(places)], list(text)):
        shown = shown_in_pieces(redactor, pieces)
        assert shown == whole
        assert not redactor.holds(shown)


@pytest.mark.parametrize("key", LOOKS_SPELLED)
def test_a_value_that_looks_spelled_is_found_spelled(key: str) -> None:
    redactor = Redactor([key])
    for at in range(1, len(key), 2):
        coloured = f"{key[:at]}\x1b[1m{key[at:]}"
        # A colour that is escaped itself parts an escape for good.
        quoted = json.dumps(coloured) if "\\" not in key[max(0, at - 5) : at] else coloured
        for text in (coloured, quoted, html.escape(coloured), quote(coloured)):
            assert "***" in redactor.redact(text)
            assert not redactor.holds(redactor.redact(text))
            assert not redactor.holds(shown_in_pieces(redactor, list(f"<{text}>")))


SWALLOWING = ("100%", "100%4", "\x1b[", "\x1b", "\x1b[0;", "\\u", "\\u00", "\\x", "\\", "\\\\", "&#1", "C:\\", "\n>")


@pytest.mark.parametrize("before", SWALLOWING)
@pytest.mark.parametrize("key", ["nabcdefgh&x9", "65;abcdefgh-i"])
def test_apparent_escape_before_it_hides_no_value(before: str, key: str) -> None:
    redactor = Redactor([key])
    for spelled in (key, f"{key[:7]}\x1b[0m{key[7:]}", html.escape(key), f"{key[:7]}\n{key[7:]}"):
        text = f"x {before}{spelled} y"
        assert redactor.redact(text).endswith("*** y")
        assert shown_in_pieces(redactor, list(text)).endswith("*** y")
        for at in range(len(text)):
            assert shown_in_pieces(redactor, (text[:at], text[at:])).endswith("*** y")


@pytest.mark.parametrize("key", ["abcdefgh-x%", "abcdefgh-x%4", "abcdefgh-x&am"])
def test_apparent_escape_at_its_end_hides_no_value(key: str) -> None:
    redactor = Redactor([key])
    text = f"x {key[:7]}\x1b[0m{key[7:]}"
    for after in ("41 y", "1 y", "p; y"):
        assert "***" in redactor.redact(text + after)
        assert "***" in shown_in_pieces(redactor, list(text + after))


def test_final_backslash_of_a_value_is_redacted_however_quoted() -> None:
    key = "C:\\some\\where\\"
    for text in (key, json.dumps(key)[1:-1], json.dumps(json.dumps(key)[1:-1])[1:-1]):
        assert Redactor([key]).redact(f"<{text}>") == "<***>"


def test_the_text_in_a_sequence_is_looked_at() -> None:
    link = quote(KEY, safe="")
    assert REDACTOR.redact(f"a \x1b]8;;https://x/?k={link}\x1b\\link\x1b]8;;\x1b\\ b").count(link) == 0


def test_base64_of_a_stripped_value_is_found() -> None:
    redactor = Redactor([f"{KEY}\n"])
    assert "***" in redactor.redact(base64.b64encode(KEY.encode()).decode())
    assert "***" in redactor.redact(quote(KEY, safe=""))


@pytest.mark.parametrize(
    "spelled",
    [
        "".join(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else "\\ud83d\\udd11" for char in FOREIGN),
        "".join(f"&#{ord(char)};" for char in FOREIGN),
        quote(FOREIGN),
        FOREIGN.replace("Ü", "&Uuml;").replace("ï", "&iuml;").replace("ü", "&#xFC;"),
        json.dumps(FOREIGN[:12] + "\x1b[K" + FOREIGN[12:]),
        ascii(FOREIGN),
        repr(FOREIGN.encode()),
    ],
)
def test_characters_beyond_ascii_are_found_in_all_escapes(spelled: str) -> None:
    redactor = Redactor([FOREIGN])
    for at in range(len(spelled)):
        assert "***" in shown_in_pieces(redactor, (spelled[:at], spelled[at:]))
    assert "***" in shown_in_pieces(redactor, list(spelled))


def test_the_url_of_a_value_in_latin_1_is_found() -> None:
    assert Redactor(["schlüssel-für-9"]).redact(quote("schlüssel-für-9", encoding="latin-1")) == "***"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-32-be", "latin-1", "cp1252"])
def test_file_with_an_encoded_secret_is_not_stored(encoding: str) -> None:
    key = "schlüssel-für-9"
    redactor = Redactor([key])
    assert redactor.storable(f"x\nKEY={key}\n".encode(encoding)) is None
    assert redactor.storable("x\nKEY=keiner-für-9\n".encode(encoding)) is not None


def test_what_only_looks_spelled_stays_as_it_is() -> None:
    text = "100%41 \\u0041 a\\/b &amp; \x1b[31mred\x1b[m QUJDREVGR0hJSktMTU5P\nUFFS"
    assert REDACTOR.redact(text) == text


def test_words_that_make_up_a_value_are_none() -> None:
    redactor = Redactor(["statement"])
    text = "the state mentioned, a state\tment"
    assert redactor.redact(text) == text
    assert shown_in_pieces(redactor, list(text)) == text
    assert redactor.redact("state\n  ment") == "***"


@given(
    before=st.text(max_size=20),
    after=st.text(max_size=20),
    spelled=st.lists(st.sampled_from(("%", "u", "&", "colour", "")), min_size=len(KEY), max_size=len(KEY)),
)
@examples(0.4)
def test_any_spelling_of_characters_is_redacted(before: str, after: str, spelled: list[str]) -> None:
    ways = {"%": "%{:02X}", "u": "\\u{:04x}", "&": "&#{};"}
    parts = [
        ways[how].format(ord(char)) if how in ways else ("\x1b[1m" if how else "") + char
        for char, how in zip(KEY, spelled, strict=True)
    ]
    text = f"{before} {''.join(parts)} {after}"
    shown = REDACTOR.redact(text)
    assert fold(KEY.encode()) not in fold(shown.encode("utf-8", "surrogatepass"))
    assert shown.startswith(before)
    assert shown.endswith(after)
    assert shown_in_pieces(REDACTOR, list(text)) == shown


@given(st.text("aä%41\\u0&;#x\x1b[]m/\n> \0\x07", max_size=60))
@examples(1)
def test_reading_equals_fold_and_maps_into_the_text(text: str) -> None:
    data = text.encode()
    read = reading(data)
    assert read.data == fold(data)
    for at in range(len(read.data)):
        if read.data[at] != 0xFF:  # what sets apart stands nowhere
            assert 0 <= read.start(at) < read.end(at + 1) <= len(data)


def _floods() -> dict[str, str]:
    """Two hundred kilobytes of each of what is dear to read."""
    size = 200_000
    units = (
        "-----BEGIN PRIVATE KEY-----...",
        "-----BEGIN PRIVATE KEY-----…\n",
        "…",
        "... ",
        "\\/",
        "%41",
        "%41x",
        "%252541",
    )
    more = (
        "\\" * 18_000 + "x\\/",
        "\\u0041",
        "&amp;",
        "\x1b[",
        "\x1b[m",
        "\x1b]" + "0" * 1_000,
        "\x1b]8;;http://x\x1b\\w",
        "A" * 64 + "\n",
        "[1",
        "a b ",
    )
    return {unit[:32]: unit * (size // len(unit)) for unit in (*units, *more)}


@pytest.mark.parametrize("flood", _floods().values(), ids=map(repr, _floods()))
def test_no_text_takes_longer_than_its_length(flood: str) -> None:
    noise = random.Random(1)
    lines = "\n".join(base64.b64encode(noise.randbytes(48)).decode() for _ in range(26))
    redactor = Redactor([f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n", KEY, LONG])
    redactor.redact(flood[:1_000] + "…")
    began = time.process_time()
    redactor.redact(flood)
    assert time.process_time() - began < 0.6  # a tenth of that on an idle machine


@pytest.mark.parametrize(
    ("secret", "spelled", "rest"),
    [
        ("sk-abc<efgh12%4", "sk-abc&lt;efgh12%4", "1;"),
        ('sk-ab"cdefgh12\\x4', "sk-ab\\u0022cdefgh12\\x4", "1"),
        ("sk-abc&defgh12&#4", "sk-abc%26defgh12%26#4", "1;"),
        ("sk-ab/cdefgh12\\", "sk-ab%2Fcdefgh12\\", "n"),
        ("sk-ab<cdefgh12%", "sk-ab\\u003ccdefgh12%", "41 x"),
    ],
)
def test_end_that_forms_an_escape_with_the_text_after_it(secret: str, spelled: str, rest: str) -> None:
    assert Redactor([secret]).redact(f"x{spelled}{rest}") == f"x***{rest}"
