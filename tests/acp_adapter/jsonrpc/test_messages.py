"""Every JSON value is a call, a response or invalid; only valid ids are echoed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_adapter.jsonrpc.messages import Call, Invalid, Response, classify

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["", "2.0", "x"])
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.sampled_from(["id", "x"]), SCALARS, max_size=2)
MESSAGES = st.dictionaries(
    st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), VALUES, max_size=6
)


@given(value=VALUES | MESSAGES)
def test_classification_is_total_and_echoes_only_possible_ids(value: Any) -> None:
    message = classify(value)
    if isinstance(message, Call | Invalid):
        assert message.id is None or type(message.id) in (int, str)


@pytest.mark.parametrize("request_id", [0, -1, 2**70, "", "1", None])
def test_a_request_keeps_its_id(request_id: Any) -> None:
    call = classify({"jsonrpc": "2.0", "id": request_id, "method": "m"})
    assert call == Call("m", None, request_id, is_notification=False)
    assert isinstance(call, Call)
    assert type(call.id) is type(request_id)


def test_a_message_without_an_id_is_a_notification() -> None:
    assert classify({"jsonrpc": "2.0", "method": "m", "params": {}}) == Call("m", {}, None, is_notification=True)


@pytest.mark.parametrize(
    ("message", "echoed"),
    [
        ([], None),
        ([{"jsonrpc": "2.0", "id": 1, "method": "m"}], None),
        ("x", None),
        (None, None),
        (True, None),
        ({}, None),
        ({"jsonrpc": "2.0", "id": 7}, 7),
        ({"jsonrpc": "1.0", "id": "a", "method": "m"}, "a"),
        ({"id": 3, "method": "m"}, 3),
        ({"jsonrpc": 2.0, "id": 3, "method": "m"}, 3),
        ({"jsonrpc": "2.0", "id": 3, "method": ["m"]}, 3),
        ({"jsonrpc": "2.0", "id": 3, "method": None}, 3),
        ({"jsonrpc": "2.0", "method": 5}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "m"}, None),
        ({"jsonrpc": "2.0", "id": 1.0, "method": "m"}, None),
        ({"jsonrpc": "2.0", "id": {}, "method": "m"}, None),
        ({"jsonrpc": "2.0", "id": [1], "method": "m"}, None),
    ],
)
def test_malformed_messages_are_invalid(message: Any, echoed: Any) -> None:
    invalid = classify(message)
    assert isinstance(invalid, Invalid)
    assert invalid.id == echoed
    assert type(invalid.id) is type(echoed)


def test_a_batch_is_refused_as_one() -> None:
    batch, other = classify([]), classify(1)
    assert isinstance(batch, Invalid)
    assert isinstance(other, Invalid)
    assert batch.reason != other.reason


def test_responses_may_have_any_id() -> None:
    assert classify({"id": [1], "result": None}) == Response([1], None, None)
    assert classify({"jsonrpc": "2.0", "id": 1, "error": {"code": 1}}) == Response(1, None, {"code": 1})
