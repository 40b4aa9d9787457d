"""Whatever the bytes are: a well-formed log, or one named error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.transfer.commands import FORMATS
from engine.context.view import View, ViewFold
from engine.core.errors import InvalidRequestError
from engine.log.cycles import cycles_of
from engine.log.event_log import EventLog
from engine.log.events import Event
from engine.log.events.codec import decode, encode
from engine.log.events.session import SessionOpened
from tests.support import view_reference as reference
from tests.support.examples import examples
from tests.support.fixed import FixedClock
from tests.support.foreign import DATA, imported
from tests.support.view_reference import ids

NAMES = st.sampled_from([None, *(each.name for each in FORMATS)])
ODD = {"run-stop-while-idle", "direct-while-active", "steer-while-idle", "duplicate-message", "duplicate-call"}

texts = st.text(max_size=8) | st.sampled_from(["", "x", "\ud800", "\x1b]0;t\x07", "{}", '{"a": 1}', "[1]"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
few_ids = st.sampled_from(["a", "b", "c", "d"])


def shaped(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that are nearly right: now and then a value is anything at all."""

    def loosely(strategy: Any) -> Any:
        return st.integers(0, 30).flatmap(lambda roll: anything if roll == 0 else strategy)

    return st.fixed_dictionaries(
        {key: loosely(each) for key, each in required.items()},
        optional={key: loosely(each) for key, each in optional.items()},
    )


blocks = st.lists(
    shaped(
        {
            "type": st.sampled_from(
                ["text", "text", "image", "thinking", "redacted_thinking", "tool_use", "tool_result"]
            )
        },
        {"text": texts, "id": few_ids, "tool_use_id": few_ids, "name": texts, "input": anything, "content": texts}
        | {"thinking": texts, "signature": texts, "is_error": st.booleans()},
    ),
    max_size=4,
)
tool_calls = st.lists(
    shaped({"id": few_ids, "function": shaped({"name": few_ids}, {"arguments": texts})}, {}), max_size=3
)
openai = shaped(
    {"role": st.sampled_from(["system", "user", "assistant", "assistant", "tool", "tool"]), "content": texts},
    {"tool_calls": tool_calls, "tool_call_id": few_ids, "reasoning_content": texts},
)
anthropic = shaped({"role": st.sampled_from(["user", "assistant"]), "content": blocks}, {"id": few_ids})
offsets = st.none() | st.integers(-2, 12)
openhands = st.one_of(
    shaped(
        {
            "kind": st.just("MessageEvent"),
            "id": few_ids,
            "source": few_ids,
            "llm_message": shaped({"role": st.sampled_from(["user", "assistant"]), "content": texts}, {}),
        },
        {"llm_response_id": few_ids, "timestamp": texts},
    ),
    shaped(
        {"kind": st.just("ActionEvent"), "id": texts, "source": few_ids, "tool_name": few_ids, "tool_call_id": few_ids},
        {"thought": texts, "llm_response_id": few_ids, "thinking_blocks": blocks, "reasoning_content": texts},
    ),
    shaped(
        {
            "kind": st.just("ObservationEvent"),
            "id": texts,
            "source": few_ids,
            "tool_call_id": few_ids,
            "observation": shaped({"content": texts}, {"is_error": st.booleans()}),
        },
        {"tool_name": st.just("finish")},
    ),
    shaped(
        {
            "kind": st.just("Condensation"),
            "id": few_ids,
            "source": few_ids,
            "forgotten_event_ids": st.lists(texts | few_ids),
        },
        {"summary": texts, "summary_offset": offsets},
    ),
    shaped(
        {"kind": st.sampled_from(["PauseEvent", "CondensationRequest", "ConversationErrorEvent", "Other"])},
        {"id": few_ids, "source": few_ids, "detail": texts},
    ),
)
conversations = st.one_of(*(st.lists(each, max_size=14) for each in (openai, anthropic, openhands)))


def check(log: tuple[Event, ...]) -> None:
    """Everything that has to be true of an imported log."""
    assert isinstance(log[0], SessionOpened)
    assert all(decode(encode(event)) == event for event in log)
    fold = ViewFold()
    EventLog(FixedClock(), lambda _: None, folds=[fold.apply]).load(log)
    assert ids(View.from_events(log).ready()) == ids(reference.enforced(reference.appended(log), log))
    ready = fold.view.ready()
    assert ids(ready) == ids(reference.enforced(reference.appended(log, well_formed=True), log))
    assert reference.offenders(ready, [], set()) == set()
    model = cycles_of(log)
    assert not model.active
    assert not ODD & {each.kind for each in model.anomalies}


def reads(data: bytes, wanted: str | None) -> bool:
    try:
        log = imported(data, wanted).events
    except InvalidRequestError as refused:
        error = str(refused)
    else:
        check(log)
        return True
    assert error.startswith("log")
    return False


@examples(1.5)
@given(anything, NAMES)
def test_any_json_gives_a_well_formed_log_or_a_named_error(value: Any, wanted: str | None) -> None:
    reads(json.dumps(value).encode(), wanted)


@examples(1.5)
@given(st.binary(max_size=60), NAMES)
def test_any_bytes_give_a_well_formed_log_or_a_named_error(data: bytes, wanted: str | None) -> None:
    reads(data, wanted)


@pytest.mark.slow
@examples(2.5)
@given(conversations, st.none() | NAMES)
def test_nearly_right_conversations_give_a_well_formed_log_or_a_named_error(
    members: list[dict[str, Any]], wanted: str | None
) -> None:
    reads("\n".join(map(json.dumps, members)).encode(), wanted)


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.iterdir()))
@examples(0.6)
@given(st.data())
def test_a_damaged_sample_gives_a_well_formed_log_or_a_named_error(name: str, data: st.DataObject) -> None:
    whole = (DATA / name).read_bytes()
    assert reads(whole, None)
    low = data.draw(st.integers(0, len(whole)))
    high = data.draw(st.integers(low, min(len(whole), low + 400)))
    reads(whole[:low] + data.draw(st.binary(max_size=3)) + whole[high:], None)


@examples(1.5)
@given(st.data())
def test_a_sample_without_some_of_its_events_is_well_formed(data: st.DataObject) -> None:
    lines = (DATA / "openhands.jsonl").read_bytes().splitlines()
    kept = data.draw(st.lists(st.sampled_from(lines), min_size=1, max_size=25))
    try:
        log = imported(b"\n".join(kept), "openhands").events
    except InvalidRequestError:
        raise AssertionError("every line of it is right by itself") from None
    check(log)
