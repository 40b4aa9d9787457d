"""What routes a message, however large and odd the rest is."""

from __future__ import annotations

import time

import pytest
from msgspec import UNSET

from acp_adapter.jsonrpc.lines import ParseError
from acp_adapter.listening.envelope import LONGEST_ID, envelope


def test_method_id_and_session_are_found() -> None:
    found = envelope(b'{"x": [1], "method": "session/prompt", "\\u0069d": 7, "params": {"a": 1, "sessionId": "s"}}')
    assert (found.method, found.id, found.session, found.is_request) == ("session/prompt", 7, "s", True)
    response = envelope(b'{"id": "7", "result": {}}')
    assert (response.method, response.id, response.session, response.is_request) == (UNSET, "7", None, False)
    assert response.result is not UNSET
    assert envelope(b'{"method": "$/cancel_request", "params": {"requestId": 3}}').cancelled == 3


@pytest.mark.parametrize("params", [b"[1, 2]", b"7", b"null", b'{"sessionId": 7}', b'{"sessionId": ["s"]}'])
def test_params_without_a_session(params: bytes) -> None:
    assert envelope(b'{"method": "x", "params": %s}' % params).session is None


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"[]", "not a JSON object"),
        (b"7", "not a JSON object"),
        (b'{"id": 1', "not valid JSON"),
        (b'{"id": 1, "x": NaN}', "not JSON"),
        (b'{"id": 1, "x": "\xff"}', "not valid UTF-8"),
        (b'{"id": 1, "x": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"id": {"a": 1}}', "not a number or a string"),
        (b'{"id": [1]}', "not a number or a string"),
        (b'{"id": true}', "not a number or a string"),
        (b'{"id": "%s"}' % (b"x" * (LONGEST_ID + 1)), "up to 1,000 characters"),
        (b'{"id": "%s"}' % (b"\\ud800" * (LONGEST_ID + 1)), "up to 1,000 characters"),
        (b'{"id": 1, "x": "%s"}' % (b"\\ud800" * 200_000), "half a surrogate pair"),
    ],
)
def test_what_is_refused(message: bytes, said: str) -> None:
    with pytest.raises(ParseError, match=said):
        envelope(message)


def test_half_a_surrogate_pair_is_repaired() -> None:
    found = envelope(b'{"method": "x", "id": "\\ud83d", "params": {"sessionId": "s", "text": "\\ud83d"}}')
    assert (found.method, found.id, found.session) == ("x", "\N{REPLACEMENT CHARACTER}", "s")


def test_a_large_message_takes_little_time() -> None:
    message = b'{"method": "x", "params": {"a": [' + b"[[],{}]," * 1_500_000 + b'1], "sessionId": "s"}}'
    began = time.process_time()
    assert envelope(message).session == "s"
    assert time.process_time() - began < 1  # 0.2 s here, where decoding all of it takes 2 s
