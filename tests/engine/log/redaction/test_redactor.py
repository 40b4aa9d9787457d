"""Texts without secrets: every form, whole or in pieces, and what a cut has left of one."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.text import cut_end, cut_line, cut_middle
from engine.log.redaction import SHORTEST, Redactor
from engine.log.redaction.spellings import fold
from engine.runtime.worker.sharing import short_repr

SECRETS = {
    "short": "k3y-Ab9z",
    "long": "".join(chr(33 + (at * 37 + at // 7) % 90) for at in range(3_000)),
    "lines": "MIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAoIB\n9w0BAQEFAASCBKcwggSjAgEA\n",
    "quotes": 'it\'s a "quoted" secret',
    "single": "it's-a-single-one",
    "backslashes": "C:\\pass\\word\\of\\mine",
    "foreign": "pässwörd-für-мне-秘密🔑",
    "ours": "tool_call_id",
    "json": '{"kind": "agent_text", "v": 1}',
    "tab": "with\ttab and \x1b escape",
    "url": "p@ss/w:rd+&=%20",
    "dots": "ends...with...dots",
}
FORMS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "repr": repr,
    "repr in a list": lambda text: repr([text]),
    "repr beside a quote": lambda text: repr(f"{text} '"),
    "repr beside two quotes": lambda text: repr(f"{text} '\""),
    "ascii": ascii,
    "repr of bytes": lambda text: repr(text.encode()),
    "json": json.dumps,
    "json in unicode": lambda text: json.dumps(text, ensure_ascii=False),
    "json of a repr": lambda text: json.dumps([repr(text)]),
    "json of json": lambda text: json.dumps(json.dumps({"x": text})),
    "repr of a repr": lambda text: repr(repr(text)),
    "url": lambda text: quote(text, safe=""),
    "url path": quote,
    "form": quote_plus,
    **{
        f"base64 at {before}": (
            lambda text, before=before: base64.b64encode(b"user:"[:before] + text.encode()).decode()
        )
        for before in range(4)
    },
    "base64 for urls": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "numbered lines": lambda text: "".join(f"{number}\t{line}\n" for number, line in enumerate(text.splitlines(), 1)),
}


def pieces_of(secret: str, shown: str, size: int = SHORTEST) -> list[str]:
    """The pieces of the secret that can be read in what is shown."""
    return [piece for at in range(len(secret) - size + 1) if (piece := secret[at : at + size]) in shown]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_no_form_of_a_secret_passes(secret: str, form: Callable[[str], str]) -> None:
    redactor = Redactor([secret])
    text = form(secret)
    shown = redactor.redact(f"before {text} after")
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    assert "***" in shown
    assert pieces_of(secret, shown) == []
    assert pieces_of(text, shown, 12) == []


@pytest.mark.parametrize("secret", [SECRETS["short"], SECRETS["lines"], SECRETS["quotes"], SECRETS["foreign"]])
@pytest.mark.parametrize("offset", range(0, 60, 3))
def test_no_cut_leaves_a_beginning_or_an_end(secret: str, offset: int) -> None:
    redactor = Redactor([secret])
    text = "." * offset + secret + "." * (100 - offset)
    shown = [
        cut_line(text, 80),
        cut_end(text, 60, "in the file"),
        cut_middle(text, 70),
        short_repr(text),
        short_repr({"key": [text, text]}),
        short_repr(text.encode()),
        cut_middle(json.dumps(repr(text)), 70),
        f"[{offset} characters left out] {text[offset + 4 : offset + 40]} [9 characters left out]",
    ]
    assert [piece for each in shown for piece in pieces_of(secret, redactor.redact(each))] == []


@pytest.mark.slow
@pytest.mark.parametrize("offset", range(0, 4_000, 37))
def test_no_cut_leaves_a_piece_of_a_long_secret(offset: int) -> None:
    secret = SECRETS["long"]
    redactor = Redactor([secret])
    text = " " * offset + secret + " " * 4_000
    shown = [cut_line(text, 3_900), cut_end(text, 4_000), cut_middle(text, 4_100), short_repr(text[3_990:])]
    assert [piece for each in shown for piece in pieces_of(secret, redactor.redact(each))] == []


def test_a_text_that_ends_at_a_cut_without_a_word_for_it_loses_the_piece_there() -> None:
    redactor = Redactor(["sk-0123456789abcdef"])
    assert redactor.redact("key sk-0123456789") == "key sk-0123456789"
    assert redactor.redact("key sk-0123456789", is_cut=True) == "key ***"


def test_what_is_no_piece_of_a_secret_stays_beside_a_cut() -> None:
    redactor = Redactor(["sk-0123456789abcdef"])
    for text in ("some words…", "[5 characters left out] and more ...", "sk-...", "sk-0123…", "…abcdef"):
        assert redactor.redact(text) == text


def test_secrets_that_share_characters_are_taken_out_together() -> None:
    redactor = Redactor(["abcdefgh", "efghijklmnop", "abcdefgh-longer"])
    assert redactor.redact("x abcdefghijklmnop y abcdefgh-longer z abcdefgh") == "x *** y *** z ***"


def test_without_secrets_a_text_is_the_same_object() -> None:
    text = "anything…"
    assert Redactor([]).redact(text) is text
    assert Redactor(["1234567"]).redact(text) is text
    assert not Redactor(["1234567"])
    assert Redactor([]).redact_piece("very") == ("very", "")
    assert Redactor(["12345678"]).redact(text) is text


def test_a_piece_waits_no_longer_than_it_looks_like_a_secret() -> None:
    redactor = Redactor(["very-secret"])
    assert redactor.redact_piece("a very") == ("a ", "very")
    assert redactor.redact_piece("a very good!") == ("a very good!", "")
    assert redactor.redact_piece("very-secret") == ("***", "")


def _joined(text: str) -> str:
    return re.sub(r"(\*\*\*)+", "***", text)


@pytest.mark.slow
@given(
    st.sets(st.text("ab", min_size=8, max_size=12), min_size=1, max_size=4),
    st.lists(st.text("abc", max_size=14), max_size=12),
)
def test_a_text_in_pieces_is_redacted_like_the_whole(secrets: set[str], pieces: list[str]) -> None:
    redactor = Redactor([*secrets, *(secret[:8] for secret in secrets)])
    shown, rest = "", ""
    for piece in pieces:
        passed, rest = redactor.redact_piece(rest + piece)
        shown += passed
        assert len(rest) <= 2 * 20
    if len("".join(pieces)) <= 20:  # what overlaps itself for longer than that may be taken out in part
        assert _joined(shown + redactor.redact(rest)) == _joined(redactor.redact("".join(pieces)))
    assert not [secret for secret in secrets if secret in shown]


@given(
    st.text("aä'\"\\\n\t…", min_size=8, max_size=20).filter(lambda text: len(text.strip()) >= SHORTEST),
    st.text("xy'\"\\\n", max_size=9),
    st.text("xy'\"", max_size=9),
)
def test_any_value_is_found_in_any_spelling(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    text = before + secret + after
    assert redactor.holds(text)
    if len(fold(secret.encode()).decode()) < SHORTEST:
        return  # of blanks, quotes and backslashes alone: found as it stands
    for spelled in (text, repr(text), ascii(text), json.dumps(text), repr(text.encode()), json.dumps(repr(text))):
        assert redactor.holds(spelled), spelled


def test_a_value_that_is_no_unicode_is_found_as_the_text_that_it_becomes_and_as_its_bytes() -> None:
    data = b"p\xe4ssword-in-latin"
    redactor = Redactor([data.decode("utf-8", "surrogateescape")])
    assert redactor.redact(data.decode("utf-8", "replace")) == "***"
    assert redactor.redact(repr(data)) == "b'***'"
    assert redactor.redact(base64.b64encode(data).decode()).startswith("***")


def test_space_is_no_secret() -> None:
    assert not Redactor([" " * 12])
    assert not Redactor(["  short  \n"])


def test_a_text_full_of_dots_costs_what_its_length_does() -> None:
    redactor = Redactor([SECRETS["long"]])
    assert redactor.redact("a piece ... of it\n" * 20_000).count("...") == 20_000


PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----\n"
ACCOUNT = '{\n  "type": "service_account",\n  "private_key_id": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"\n}\n'
COMMON = (
    "one\npassword\n----------------\nimport os, sys, pathlib\nThis is a line of a licence.\nCONTRIBUTING_GUIDELINES\n"
)


def test_a_line_of_a_secret_is_secret_only_if_it_looks_random() -> None:
    for secret, found in ((PEM, ["MIIEvQIBADANBgkqhkiG9w0", "BAQEFAASCBKcwggSjAgEAAoIB"]), (COMMON, [])):
        redactor = Redactor([secret])
        assert redactor.redact(f"before\n{secret}after") == "before\n***\nafter"
        for number, line in enumerate(secret.splitlines(), 1):
            assert redactor.redact(f"{number}\t{line}\n") == f"{number}\t{'***' if line in found else line}\n"
    redactor = Redactor([ACCOUNT])
    assert redactor.redact('  "type": "service_account",') == '  "type": "service_account",'
    assert redactor.redact(ACCOUNT.splitlines()[2]) == "  ***"


def test_a_cut_of_a_passphrase_leaves_no_piece_with_blanks() -> None:
    redactor = Redactor(["my pass phrase 42 with blanks"])
    for text in ("x my pass…", "x …th blanks", "x 'my pass'…", "x pass phra... 9 characters left out ...\nith blanks"):
        assert pieces_of("my pass phrase 42 with blanks", redactor.redact(text)) == []
