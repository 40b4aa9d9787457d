"""Redaction of texts, pieces, contents, events and JSON."""

from __future__ import annotations

import base64
import html
import io
import json
import time
import types
import unicodedata
from binascii import b2a_base64
from collections.abc import Callable, Iterator, Sequence
from string import ascii_letters
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from engine.core.execution import ExceptionInfo
from engine.core.ids import ExecutionId, MessageId, StatementId, ToolCallId
from engine.core.programs import CommandOutput
from engine.core.text import cut_end, cut_line, cut_line_from, cut_middle
from engine.log.events import EVENTS, Event
from engine.log.events.codec import decode, encode
from engine.log.events.conversation import AgentReasoning, AgentText, Attachment, ThinkingBlock, ToolCall, UserMessage
from engine.log.events.execution import EffectAnswered, EffectRequested, StatementRecorded
from engine.log.redaction import (
    NO_SECRETS,
    SHORTEST,
    RedactedStream,
    Redactor,
    marked_line,
    redact_event,
    redact_json,
    without_secrets,
)
from engine.log.redaction.spellings import fold
from engine.runtime.connection import CAPTURED_BYTES, Capture
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
    "signs of base64": "k>>>>>>>?????????~~",
}
FORMS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "repr": repr,
    "repr beside two quotes": lambda text: repr(f"{text} '\""),
    "ascii": ascii,
    "repr of bytes": lambda text: repr(text.encode()),
    "json": json.dumps,
    "json of json": lambda text: json.dumps(json.dumps({"x": text})),
    "repr of a repr": lambda text: repr(repr(text)),
    "url": lambda text: quote(text, safe=""),
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


TOKEN = "sk-proj-Zq9vT4mW7xK2pL8nR3yB6hQ5"


@pytest.mark.parametrize("size", range(1, len(TOKEN)))
def test_no_piece_of_a_secret_is_replaced_because_that_would_tell_it(size: int) -> None:
    redactor = Redactor([TOKEN])
    for text in (f"…{TOKEN[:size]}…", f"…{TOKEN[-size:]}…", f"[9 characters left out] {TOKEN[:size]} ..."):
        assert redactor.redact(text) == text


LONG = "sk-proj-Zq7RkW3xYb9TfLm2PcVn5JhGdS8aEuQo1iXtBy4wKvMpQ8rT6uW2yA4cE6gI8kM0oQ2sU4wY6aC8e"
ON_LINES = {
    "wrapped": [LONG[at : at + 20] for at in range(0, len(LONG), 20)],
    "signs first": ["sk", "-proj", "-Zq7RkW3xYb9TfLm2PcVn5JhGdS8aEuQo1iXtBy4wKv", LONG[50:]],
    "quoted": ["> " + LONG[at : at + 24] for at in range(0, len(LONG), 24)],
    "base64": b2a_base64(LONG.encode(), newline=False).decode().replace("c", "c\n").split("\n"),
    "digits": [LONG.encode().hex()[at : at + 32] for at in range(0, 2 * len(LONG), 32)],
    "literal": [f'KEY = ("{LONG[:30]}"', f'"{LONG[30:60]}"', f'"{LONG[60:]}")'],
}


@pytest.mark.parametrize("lines", ON_LINES.values(), ids=ON_LINES)
@pytest.mark.parametrize("size", [1, 7, 1_000])
@pytest.mark.parametrize(
    "marks",
    [
        lambda lines: "".join(f"{number}\t{line}\n" for number, line in enumerate(lines, 8)),
        lambda lines: "@@ -1 +1,9 @@\n" + "".join(f"+{line}\n" for line in lines),
        lambda lines: "@@\n" + "".join(f"-{number}\t{line}\n" for number, line in enumerate(lines, 99)),
        "\n\u21aa ".join,
        lambda lines: "@@\n" + "".join(f"{number}\t+{number + 7}\t{line}\n" for number, line in enumerate(lines, 99)),
        lambda lines: "@@\n" + "".join(f"++{line}\n" for line in lines),
        lambda lines: "".join(f"src/a-b.py:{number}: {line}\n" for number, line in enumerate(lines, 8)),
        lambda lines: "".join(f"src/a-b.py-{number}- {line}\n" for number, line in enumerate(lines, 8)),
        lambda lines: " ".join(line.removeprefix("> ") for line in lines),
        "\u2028".join,
        lambda lines: json.dumps({"a": "".join(f"{number}\t{line}\n" for number, line in enumerate(lines, 8))}),
        lambda lines: json.dumps("\n\u21aa ".join(lines)),
        lambda lines: "@@\n" + "".join(f"\x1b[32m+\x1b[m\x1b[32m{line}\x1b[m\n" for line in lines),
        lambda lines: "".join(f"{number}:{line}\n" for number, line in enumerate(lines, 8)),
        lambda lines: "".join(f"src/a-b.py:{number}:{line}\n" for number, line in enumerate(lines, 8)),
    ],
    ids=[
        "numbers",
        "signs",
        "both",
        "continued",
        "view of a diff",
        "two signs",
        "search",
        "around",
        "joined",
        "Unicode",
        "JSON",
        "escaped",
        "colours",
        "grep -n",
        "grep -Hn",
    ],
)
def test_a_secret_on_several_lines_is_found_behind_the_marks_of_lines(
    lines: list[str], size: int, marks: Callable[[Sequence[str]], str]
) -> None:
    redactor, text = Redactor([LONG]), marks(lines)
    shown, held = "", ""
    for at in range(0, len(text), size):
        more, held = redactor.redact_piece(held + text[at : at + size])
        shown += more
    shown += redactor.redact(held)
    assert redactor.holds(text)
    assert redactor.storable(text.encode()) is None
    for each in (shown, redactor.redact(text)):
        assert [line for line in lines if line in each and len(line) > 4] == []
        assert pieces_of(LONG, each) == []


@pytest.mark.parametrize(
    "text",
    [
        "+{}\n+{}\nabc",
        "     1\t{}\n     2\t{}\nabc",
        '"{}\x1b]8;;http://x/y\x1b\\{} end\n',
        "x {}\x1b]0;my title\x07{}\n\n",
    ],
    ids=["diff", "cat -n", "link", "title"],
)
def test_the_parts_of_a_secret_stay_together_in_pieces(text: str) -> None:
    """Its last letter begins a form of it, too, and waits for what comes next."""
    key = "sk-ATTACK-9f8e7d6c5b4a3f2e1d0c"
    redactor, spelled = Redactor([key]), text.format(key[:14], key[14:])
    for size in range(1, len(spelled)):
        shown, held = "", ""
        for at in range(0, len(spelled), size):
            more, held = redactor.redact_piece(held + spelled[at : at + size])
            shown += more
        assert shown + redactor.redact(held) == redactor.redact(spelled) == text.format("***", "***")


@pytest.mark.parametrize("lines", ON_LINES.values(), ids=ON_LINES)
@pytest.mark.parametrize("mark", ["my notes/k y.txt:{}: ", "my notes.txt-{}- "])
def test_a_secret_is_found_behind_a_path_with_blanks(lines: list[str], mark: str) -> None:
    text = "".join(f"{mark.format(number)}{line}\n" for number, line in enumerate(lines, 8))
    assert pieces_of(LONG, Redactor([LONG]).redact(text)) == []


def test_marks_of_lines_stay_and_join_nothing_else() -> None:
    redactor = Redactor(["first-second"])
    for text in ("first\n12\tthird", "1\tfirst\n2\t-\n4 second", "+first\n x\n+-second", "1:first\n2:third"):
        assert redactor.redact(text) == text


@pytest.mark.parametrize("key", ["q83vEjRWeJCrze8SNFZ4kKvN+/8==", "-q83vEjRWeJCrze8", "(q83vEjRWeJ)"])
def test_a_secret_is_found_without_the_signs_at_its_ends(key: str) -> None:
    redactor = Redactor([key])
    assert redactor.redact(f"at {key.strip('=-()')}: end") == "at ***: end"
    assert redactor.redact(f"at {key} end") == "at *** end"


def test_a_literal_over_lines_with_blanks_before_the_backslash_is_found() -> None:
    redactor = Redactor([LONG])
    assert redactor.redact(f'KEY = "{LONG[:30]}" \\\n      "{LONG[30:]}"') == 'KEY = "***"'
    assert Redactor(["correct-horse-battery"]).redact('"correct-horse" \\\n  "-battery"') == '"***"'


def test_words_with_blanks_between_them_are_no_secret_of_letters() -> None:
    assert Redactor(["statement-state"]).redact("a statement -state") == "a statement -state"


def test_a_secret_that_is_mostly_signs_is_found_whole_only() -> None:
    assert Redactor(["!!!!!password!!!!!"]).redact("my password") == "my password"


def test_a_secret_with_a_tab_is_found_where_white_space_became_one_blank() -> None:
    assert Redactor(["Mm18Qw7xLk9\tTz5hGdS8a"]).redact("a Mm18Qw7xLk9 Tz5hGdS8a b") == "a *** b"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_letters_with_accents_are_found_in_both_forms_and_misread(form: str) -> None:
    key = "p\xe4ssw\xf6rtGeheim12345"
    redactor = Redactor([unicodedata.normalize("NFD" if form == "NFC" else "NFC", key)])
    assert redactor.redact(f"a {unicodedata.normalize(form, key)} b") == "a *** b"
    assert Redactor([key]).redact(f"a {key.encode('latin-1').decode('utf-8', 'replace')} b") == "a *** b"


KEYS = [
    SECRETS["short"],
    TOKEN,
    "Ab1-" * 120,
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY",
    "4x$k9!m2@q7#z5^w8&b1*c3(v6)",
]


@pytest.mark.parametrize("secret", KEYS)
@pytest.mark.parametrize("offset", range(0, 100, 7))
def test_our_own_cuts_know_no_secret_and_leave_no_part_of_one(secret: str, offset: int) -> None:
    text = "- " * (offset // 2) + secret + " " + "- " * 50
    ending = " -" * 50 + " " + secret + " -" * (offset // 2)
    data = text.encode()
    capture = Capture(NO_SECRETS)
    capture.feed(b". " * (CAPTURED_BYTES // 2 - 40) + data)
    shown = [
        cut_line(text, 80),
        cut_line_from(text, 80, 80),
        cut_end(text, 60, "in the file"),
        cut_middle(text, 70),
        cut_middle(ending, 70),
        short_repr(text),
        short_repr(data),
        short_repr({"key": [text, text]}),
        CommandOutput(head=data[:80], tail=ending[-80:].encode(), total=9_999).text,
        capture.finish().text,
    ]
    assert [piece for each in shown if secret not in each for piece in pieces_of(secret, each)] == []


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


def test_the_longer_of_two_values_is_found_however_many_colours_are_in_it() -> None:
    redactor, colours = Redactor(["very-secret", "very-secret-indeed"]), "\x1b[0m" * 1000
    shown, held = redactor.redact_piece(f"very-secret{colours}")
    more, held = redactor.redact_piece(f"{held}-indeed!")
    assert (shown + more, held) == ("***!", "")


def test_a_redacted_stream_flushes_the_stream_below_until_that_is_closed() -> None:
    below = io.BytesIO()
    inner = io.TextIOWrapper(below, encoding="utf-8")
    stream = RedactedStream(inner, Redactor(["very-secret"]))
    stream.write("a very-secret")
    stream.flush()
    assert below.getvalue() == b"a ***"
    inner.close()
    stream.flush()


@pytest.mark.parametrize("known", ["", "v", "very-s", "very-secre"])
@pytest.mark.parametrize("before", ["", "x ", "a=", "\n"])
def test_what_waits_tells_nobody_about_the_secrets_of_others(known: str, before: str) -> None:
    redactor = Redactor(["very-secret", "c0rrect horse battery"], is_others=True)
    for derived in (redactor, redactor.knowing(["another-secret"])):
        for after in ("", "\n", " ", "\nx", "..."):
            rests = {len(derived.redact_piece(f"{before}{known}{char}{after}")[1]) for char in ascii_letters}
            assert len(rests) == 1


def test_secrets_of_others_do_not_leave_in_pieces() -> None:
    redactor = Redactor(["very-secret"], is_others=True)
    text = "a very-secret, b=very-secret\nvery-secret"
    for size in range(1, len(text)):
        shown, held = "", ""
        for at in range(0, len(text), size):
            more, held = redactor.redact_piece(held + text[at : at + size])
            shown += more
        assert shown + redactor.redact(held) == "a ***, b=***\n***"
    assert redactor.redact_piece("step 1\n") == ("step 1\n", "")
    assert redactor.redact_piece("50% ....") == ("50% ....", "")
    assert redactor.redact_piece("Working...") == ("Working...", "")
    assert redactor.redact_piece("Gr\xfc\xdfe \u4f60\u597d") == ("Gr\xfc\xdfe \u4f60\u597d", "")
    assert redactor.redact_piece("x" * 1000)[0]


def test_piece_waits_only_while_it_looks_secret() -> None:
    redactor = Redactor(["very-secret"])
    assert redactor.redact_piece("a very") == ("a ", "very")
    assert redactor.redact_piece("a very good!") == ("a very good!", "")
    assert redactor.redact_piece("very-secret") == ("***", "")


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


def test_invalid_unicode_value_is_found_as_text_and_bytes() -> None:
    data = b"p\xe4ssword-in-latin"
    redactor = Redactor([data.decode("utf-8", "surrogateescape")])
    assert redactor.redact(data.decode("utf-8", "replace")) == "***"
    assert redactor.redact(repr(data)) == "b'***'"
    assert redactor.redact(base64.b64encode(data).decode()).startswith("***")


def test_space_is_no_secret() -> None:
    assert not Redactor([" " * 12])
    assert not Redactor(["  short  \n"])


PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----\n"
ACCOUNT = '{\n  "type": "service_account",\n  "private_key_id": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"\n}\n'
COMMON = (
    "one\npassword\n----------------\nimport os, sys, pathlib\nThis is a line of a licence.\nCONTRIBUTING_GUIDELINES\n"
)


def test_only_random_lines_of_a_secret_are_secret() -> None:
    for secret, found in ((PEM, ["MIIEvQIBADANBgkqhkiG9w0", "BAQEFAASCBKcwggSjAgEAAoIB"]), (COMMON, [])):
        redactor = Redactor([secret])
        assert redactor.redact(f"before\n{secret}after") == "before\n***\nafter"
        for number, line in enumerate(secret.splitlines(), 1):
            assert redactor.redact(f"{number}\t{line}\n") == f"{number}\t{'***' if line in found else line}\n"
    redactor = Redactor([ACCOUNT])
    assert redactor.redact('  "type": "service_account",') == '  "type": "service_account",'
    assert redactor.redact(ACCOUNT.splitlines()[2]) == "  ***"


SECRET = "a-secret-of-mine"
REDACTOR = Redactor([SECRET])
WORDS = {
    "session_opened": ["cwd", "directories", "python", "packages", "real"],
    "view_enforced": ["property_name"],
    "config_changed": ["option", "value"],
    "domain_entered": ["writable"],
    "others_wrote": ["writable"],
    "surroundings_read": ["cwd"],
    "workspace_cloned": ["commit", "directory", "branch"],
    "user_message": ["attachments.picture.digest"],
    "agent_reasoning": ["provider"],
    "tool_call": ["thinking.provider"],
    "servers_named": ["modules.key"],
    "server_connected": ["module"],
    "server_lost": ["module"],
    "tool_result": ["pictures.digest"],
    "result_rerendered": ["displays.obj_id", "displays.state", "displays.revision", "displays.digest"],
    "statement_recorded": ["fingerprint"],
    "execution_finished": [
        "stdout.digest",
        "stderr.digest",
        "pictures.digest",
        "displays.obj_id",
        "displays.state",
        "displays.revision",
        "displays.digest",
        "artifacts.before_digest",
        "artifacts.after_digest",
        "diff.changed.key.before_digest",
        "diff.changed.key.after_digest",
        "diff.digests.key",
    ],
    "effect_requested": ["argument_digest"],
    "effect_answered": ["digest"],
    "file_touched": ["before_digest", "withheld"],
    "file_written": ["before_digest", "after_digest", "withheld"],
    "rewind_begun": [
        "files.present_digest",
        "files.wanted_digest",
        "files.own.present_digest",
        "files.own.wanted_digest",
    ],
    "rewound": [
        "restored.present_digest",
        "restored.wanted_digest",
        "restored.own.present_digest",
        "restored.own.wanted_digest",
    ],
    "command_ended": ["output.digest", "errors.digest"],
    "names_rebound": ["names"],
    "method_called": ["obj_type", "method", "before_digest", "after_digest"],
    "node_changed": ["obj_type"],
    "file_changed": ["before_digest", "after_digest"],
    "revision_adopted": ["digest", "withheld"],
    "node_made": ["obj_type"],
    "outline_made": ["digest"],
    "contents_adopted": ["files.digest", "files.withheld"],
    "async_payload_prepared": ["basis.obj_digest_hash", "basis.policy_hash", "basis.deps_hash", "payload_hash"],
}
"""Every field that is neither a text nor an identifier, by kind: what redaction leaves is decided upon here."""


def filled(hint: Any) -> Any:
    """A value of the type in which every text and word is the secret, and every key is `key`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, NewType):
        return "id" if hint.__supertype__ is str else 0
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        return filled(arguments[0])
    if origin is tuple:
        return (filled(arguments[0]),)
    if origin is dict:
        return {"key": filled(arguments[1])}
    if isinstance(hint, type) and issubclass(hint, Struct):
        return hint(
            **{name: filled(each) for name, each in get_type_hints(hint).items() if name in hint.__struct_fields__}
        )
    if hint is bytes:
        return SECRET.encode()
    return SECRET if hint in (str, object) else hint()


def texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The strings of a JSON value by the keys that lead there."""
    match value:
        case str():
            yield path, value
        case dict():
            for key, item in value.items():
                yield from texts(item, f"{path}.{key}" if path else key)
        case list():
            for item in value:
                yield from texts(item, path)
        case _:
            pass


def test_every_text_loses_a_secret_and_words_do_not() -> None:
    found: dict[str, list[str]] = {}
    for kind in EVENTS:
        for path, text in texts(msgspec.json.decode(encode(redact_event(REDACTOR, filled(kind))))):
            if text in (SECRET, base64.b64encode(SECRET.encode()).decode()):
                found.setdefault(kind.kind, []).append(path)
    assert found == WORDS


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.kind)
def test_event_survives_a_secret_equal_to_its_words(kind: type[Event]) -> None:
    data = encode(filled(kind))
    words = {text for key, item in msgspec.json.decode(data).items() for text in (key, item) if isinstance(text, str)}
    for word in {*words, "tool_call_id", '"kind":"', "statement", "completed", '{"kind"'}:
        clean = redact_event(Redactor([word]), decode(data))
        assert list(msgspec.json.decode(encode(clean))) == list(msgspec.json.decode(data))
        assert type(decode(encode(clean))) is kind


def test_an_event_without_a_secret_is_the_same_object() -> None:
    event = AgentText(message_id=MessageId("m"), text="harmless … and more")
    assert redact_event(REDACTOR, event) is event
    assert redact_event(Redactor([]), filled(AgentText)) == filled(AgentText)


def test_a_secret_is_found_whatever_json_makes_of_it() -> None:
    secret = 'a "quoted" \\ secret\nof two lines 🔑'
    call = ToolCall(
        tool_call_id=ToolCallId("c1"),
        tool="python",
        arguments={"source": f"x = {secret}", "deep": [{"k": repr(secret)}]},
    )
    clean = redact_event(Redactor([secret]), call)
    assert clean.arguments == {"source": "x = ***", "deep": [{"k": "'***'"}]}


def test_redacted_source_has_a_digest_of_the_original() -> None:
    statement = StatementRecorded(
        statement_id=StatementId("s"), index=1, source=f"key = {SECRET!r}", tool_call_id=ToolCallId("c")
    )
    clean = redact_event(REDACTOR, statement)
    assert clean.source == "key = '***'"
    assert clean.withheld.startswith("blake2b:")
    harmless = msgspec.structs.replace(statement, source="key = 1")
    assert redact_event(REDACTOR, harmless) is harmless


def test_redacted_error_is_not_replayed_as_another() -> None:
    answered = EffectAnswered(
        execution_id=ExecutionId("x"),
        ordinal=0,
        operation="read",
        error=ExceptionInfo(type="FileNotFoundError", message=f"No such file: {SECRET}"),
    )
    clean = redact_event(REDACTOR, answered)
    assert clean.error.message == "No such file: ***"
    assert clean.withheld.startswith("blake2b:")


def test_thinking_that_changes_loses_the_signature_that_covered_it() -> None:
    block = ThinkingBlock(text=f"it is {SECRET}", signature="signed", provider="anthropic")
    call = ToolCall(tool_call_id=ToolCallId("c"), tool="python", thinking=(block,))
    clean = redact_event(REDACTOR, call)
    assert clean.thinking == (ThinkingBlock(text="it is ***", provider="anthropic"),)
    reasoning = redact_event(REDACTOR, AgentReasoning(message_id=MessageId("m"), text=SECRET, signature="signed"))
    assert reasoning.signature is None


def test_word_keys_and_exact_values_of_json_stay() -> None:
    assert redact_json(Redactor(["tool_call_id"]), {"tool_call_id": 1}) == {"tool_call_id": 1}
    value = {SECRET: [SECRET, {"status": SECRET, "title": f"<{SECRET}>"}], "path": [SECRET], "n": 1}
    assert redact_json(REDACTOR, value, {"status", "path"}) == {
        "***": ["***", {"status": SECRET, "title": "<***>"}],
        "path": [SECRET],
        "n": 1,
    }


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("KEY=abc\n", "A=1\nKEY=***\n", 2),
        ("", '{"token": "***"}', 1),
        ("", "Authorization: Bearer ***\r\n", 1),
        ("KEY=***\n", "KEY=***\nB=2\n", None),
        ("KEY=***\n", "KEY=***\nB=***\n", 1),
        ("", "***bold and leaning***", None),
        ("", "one\n\n***\n\ntwo\n", None),
        ("", "****", None),
        ("", "x**3", None),
        ("", "", None),
    ],
)
def test_a_mark_that_was_not_there_before_is_found(before: str, after: str, line: int | None) -> None:
    assert marked_line(before.encode(), after.encode()) == line


@pytest.mark.parametrize(
    "event",
    [
        ToolCall(tool_call_id=ToolCallId("t"), tool=f"srv.{SECRET}"),
        EffectRequested(execution_id=ExecutionId("e"), ordinal=0, operation=f"mcp.srv.{SECRET}", argument_digest="d"),
        EffectAnswered(execution_id=ExecutionId("e"), ordinal=0, operation=SECRET),
        UserMessage(
            message_id=MessageId("m"), text="", attachments=(Attachment(uri="u", name="n", media_type=SECRET),)
        ),
    ],
)
def test_secret_in_an_operation_or_a_media_type_is_redacted(event: Event) -> None:
    assert SECRET.encode() not in encode(redact_event(Redactor([SECRET]), event))


def test_names_of_operations_stay() -> None:
    event = EffectAnswered(execution_id=ExecutionId("e"), ordinal=0, operation="mcp.some_server.a_tool")
    assert redact_event(Redactor(["a_tool"]), event) == event


@pytest.mark.parametrize("secret", ['"kxnd":"', "{'a': [1]}", '{"k":"\\\\"}'])
def test_secret_of_quotation_marks_is_found_as_programs_spell_it(secret: str) -> None:
    redactor = Redactor([secret])
    once = json.dumps(secret)
    spelled = [
        *(quote(secret), quote(secret, safe=""), quote(secret).lower()),
        *(once[1:-1], json.dumps(once)[3:-3], repr(secret)[1:-1], html.escape(secret)),
    ]
    for text in spelled:
        assert redactor.redact(f"before {text} after") == "before *** after", text


def test_learned_values_are_replaced_in_derived_redactors_too() -> None:
    redactor = Redactor(["known-value-1"])
    derived = redactor.knowing(["server-value-2"])
    last = derived.knowing(["last-value-3"])
    redactor.learn(["learned-value-4", "known-value-1"])
    text = "known-value-1 server-value-2 last-value-3 learned-value-4"
    assert redactor.redact(text) == "*** server-value-2 last-value-3 ***"
    assert derived.redact(text) == "*** *** last-value-3 ***"
    assert last.redact(text) == "*** *** *** ***"


class Growing:
    """A source whose values change with its mark."""

    def __init__(self) -> None:
        self.known: list[str] = []
        self.asked = 0

    def mark(self) -> object:
        return len(self.known)

    def values(self) -> list[str]:
        self.asked += 1
        return self.known


SEARCHES: dict[str, Callable[[Redactor, str], bool]] = {
    "truth": lambda redactor, _: bool(redactor),
    "holds": Redactor.holds,
    "holds_in_json": lambda redactor, text: redactor.holds_in_json(text.encode()),
    "storable": lambda redactor, text: redactor.storable(text.encode()) is None,
    "storable_json": lambda redactor, text: redactor.storable_json(text.encode()) is None,
    "storable_text": lambda redactor, text: redactor.storable_text(text) == b"***",
    "redact": lambda redactor, text: redactor.redact(text) == "***",
    "redact_piece": lambda redactor, text: redactor.redact_piece(text) == ("***", ""),
}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("is_derived", [False, True])
def test_each_search_knows_what_its_source_has_got_since(search: str, is_derived: bool) -> None:
    source = Growing()
    first = Redactor([], source)
    redactor = first.knowing([]).knowing([]) if is_derived else first
    find, value = SEARCHES[search], "stored-by-another-1"
    assert not find(redactor, value)
    source.known.append(value)
    assert find(redactor, value)
    assert [find(redactor, value) for _ in range(3)] == [True] * 3
    assert source.asked == 2, "it is read only when its mark has changed"
    source.known.clear()
    assert find(first, value), "what is gone stays known"


def test_stream_hides_what_becomes_known_later() -> None:
    source, written = Growing(), io.StringIO()
    stream = without_secrets(written, Redactor([], source).knowing([]))
    source.known.append("stored-by-another-1")
    stream.write("it is stored-by-another-1")
    assert written.getvalue() == "it is ***"
    assert without_secrets(written, Redactor([])) is written


def test_redactor_without_values_learns_some() -> None:
    redactor = Redactor([])
    redactor.learn(["short"])
    assert not redactor
    redactor.learn(["a-longer-value"])
    assert redactor
    assert redactor.redact("it is a-longer-value") == "it is ***"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("no secret\n", {}),
        ("a first-second b\nc\nfirst-second", {0: "a *** b", 2: "***"}),
        ("x\nKEY='first-\nsecond' end\n", {1: "KEY='***", 2: "***' end"}),
        ("x\r\nfirst-\r\nsecond\r\nz", {1: "***\r", 2: "***\r"}),
        ("first-\\\n   second first-second\n", {0: "***", 1: "*** ***"}),
        ("é first-\n\nsecond é", {0: "é ***", 2: "*** é"}),
    ],
)
def test_lines_keep_their_numbers_when_secrets_are_hidden(text: str, lines: dict[int, str]) -> None:
    assert Redactor(["first-second"]).hidden_lines(text) == lines
    assert NO_SECRETS.hidden_lines(text) == {}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_no_form_of_a_secret_is_in_the_lines(secret: str, form: Callable[[str], str]) -> None:
    redactor, text = Redactor([secret]), f"before\n{form(secret)}\nafter"
    lines = text.split("\n")
    for number, line in redactor.hidden_lines(text).items():
        lines[number] = line
    shown = "\n".join(lines)
    assert (lines[0], lines[-1], len(lines)) == ("before", "after", text.count("\n") + 1)
    assert pieces_of(secret, shown) == []
    assert not redactor.holds(shown)


@pytest.mark.parametrize(
    "unit", ["\\n", "\\na", "\n", "\n1", "\\n- ", "\\n" + "a" * 299, "\n> ", "\\n1-2", "\n+", "\na:1: "]
)
def test_no_text_takes_much_longer_than_others_of_its_length(unit: str) -> None:
    redactor, size = Redactor([LONG]), 1 << 17

    def seconds(text: str) -> float:
        times: list[float] = []
        for _ in range(3):
            since = time.process_time()
            redactor.redact(text)
            times.append(time.process_time() - since)
        return min(times)

    assert seconds(unit * (size // len(unit))) < 8 * seconds("\\u0041" * (size // 6))
