"""Bytes as documents: what is taken, and what is said about the rest."""

from __future__ import annotations

import json

import pytest

from engine.cli.transfer.document import loads, parse
from engine.core.errors import InvalidRequestError


def test_every_json_layout_gives_the_same_list() -> None:
    members = [{"role": "user", "content": str(number)} for number in range(3)]
    texts = (
        json.dumps(members),
        json.dumps({"messages": members}),
        json.dumps({"events": members}),
        "\n".join(map(json.dumps, members)),
        "\r\n\r\n".join(map(json.dumps, members)) + "\n\n",
        "".join(map(json.dumps, members)),
        json.dumps(members, indent=2),
        "\n".join(json.dumps(each, indent=2) for each in members),
    )
    for text in texts:
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
            assert [item.fields for item in parse(text.encode(encoding), "f").items] == members


def test_places_are_lines_where_lines_are_objects_and_items_elsewhere() -> None:
    assert [item.place for item in parse(b'{"a":1}\n\n{"b":2}', "f").items] == ["f, line 1", "f, line 3"]
    assert [item.place for item in parse(b'[{"a":1},\n\n{"b":2}]', "f").items] == ["f, item 1", "f, item 2"]
    assert [item.place for item in parse(b'{"messages":[{}]}', "f").items] == ["f, item 1"]


def test_what_stands_around_the_list_is_kept() -> None:
    assert parse(b'{"system":"s","messages":[],"model":"m"}', "f").around == {"system": "s", "model": "m"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "f is empty"),
        (b'{"a":1}\n{"b":\n', "f, line 3: this is not JSON: Expecting value (column 1)"),
        (b"[1]", "f, item 1: this must be a JSON object, not a number"),
        (b'{"a":1}\n[]', "f, line 2: this must be a JSON object, not an array"),
        (b'{"messages":[]}\n{"messages":[]}', "f, line 1: the file has more than one conversation"),
        (b'{"a":"\xff"}', "f: byte 6 is not valid utf-8: invalid start byte"),
        (b'{"a":' + b"[" * 65 + b"]" * 65 + b"}", "f, line 1: the JSON is nested more than 64 deep"),
        (b"[" * 100_000, "f, line 1: the JSON is nested too deeply"),
    ],
)
def test_what_is_no_document_is_refused_with_its_place(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse(data, "f")
    assert str(caught.value).startswith(reason)


def test_what_an_event_cannot_hold_is_made_fit() -> None:
    long = "9" * 5000
    document = parse(b'{"a":"\\ufffd\\ud800x\\ud83d\\ude00","\\udfff":NaN,"b":1e999,"c":' + long.encode() + b"}", "f")
    assert document.items[0].fields == {
        "a": "\ufffd\ufffdx\N{GRINNING FACE}",
        "\ufffd": "float:nan",
        "b": "float:inf",
        "c": f"int:{long}",
    }
    assert document.replaced == 2
    edges = "[18446744073709551615, -9223372036854775808, 18446744073709551616, -Infinity]"
    assert loads(edges) == [(1 << 64) - 1, -(1 << 63), "int:18446744073709551616", "float:-inf"]
    with pytest.raises(ValueError, match="nested"):
        loads("[" * 100 + "]" * 100)
