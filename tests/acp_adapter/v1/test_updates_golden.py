"""Golden updates of a rich log: live, loaded at any moment, and after a resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from acp_adapter import updates
from acp_adapter.shown import NOTHING_SHOWN
from engine.core.toolbox import TOOLS
from engine.log.events import EVENTS, AnyEvent, Event
from engine.log.events.conversation import CondensationRequest, RunStop, ToolCall
from engine.log.events.nodes import FileChanged
from engine.session.journal import FilesPutBack, OutputStreamed, ReasoningStreamed, StatementRerun, TextStreamed
from tests.support.acp_schema import validate_outgoing
from tests.support.rich_log import CWD, events_of, rich_items
from tests.support.scripts import transcript
from tests.support.shown import WRITER, LoggedFacts, event_updates, screen

pytestmark = pytest.mark.anyio

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "acp" / "updates_v1.json").read_text(encoding="utf-8")
)


MOMENTS = 6
"""Limit of loads after each kind of event."""


def text(value: object) -> str:
    """The text that is sent: the order of keys matters."""
    return json.dumps(value, ensure_ascii=False, indent=1)


def test_rich_log_has_every_kind() -> None:
    assert {type(item) for item in rich_items()} == {
        *EVENTS,
        TextStreamed,
        ReasoningStreamed,
        OutputStreamed,
        FilesPutBack,
        StatementRerun,
    }


async def test_golden_live_updates() -> None:
    async with screen(CWD) as shown:
        assert text(await shown.show(*rich_items())) == text(GOLDEN["live"])


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
async def test_load_at_any_moment(every: int) -> None:
    items = rich_items()
    streaming: dict[int, list[Any]] = dict(GOLDEN["unfinished"])
    async with screen(CWD) as shown:
        for position, item in enumerate(items):
            await shown.show(item)
            if position % every and position + 1 < len(items):
                continue
            log = events_of(items[: position + 1])
            again = await shown.replay(log)
            of_log = translated(log)
            assert text(of_log) == text(GOLDEN["replayed"][: len(of_log)]), item
            unfinished = streaming.get(position, [])
            assert text(again[len(again) - len(unfinished) :]) == text(unfinished), item
            assert drawn(again) == drawn(of_log + unfinished), item
            assert not stale(again[: len(again) - len(unfinished)]), item
        assert text(of_log) == text(GOLDEN["replayed"])


def translated(log: list[Event]) -> list[Any]:
    """The updates of all events in order."""
    facts, state, sent = LoggedFacts(CWD, log), NOTHING_SHOWN, list[Any]()
    for event in log:
        state, updates = event_updates(cast("AnyEvent", event), state, facts, is_live=False)
        sent += updates
    return sent


def drawn(updates: list[Any]) -> object:
    """The state of an editor after these updates, with the user's messages."""
    users = [(update["messageId"], update["content"]) for update in updates if "user" in update["sessionUpdate"]]
    return users, transcript(updates)


def stale(updates: list[Any]) -> list[Any]:
    """Calls and replaceable values that were sent more than once."""
    told = [
        update.get("toolCallId", update["sessionUpdate"])
        for update in updates
        if "chunk" not in update["sessionUpdate"]
    ]
    return [name for name in told if told.count(name) > 1]


@pytest.mark.slow
async def test_load_does_not_change_later_updates() -> None:
    items = rich_items()
    live: list[Any] = []
    async with screen(CWD) as shown:
        for position, item in enumerate(items):
            live += await shown.show(item)
            await shown.replay(events_of(items[: position + 1]))
    assert text(live) == text(GOLDEN["live"])


@pytest.mark.parametrize(("seq", "expected"), GOLDEN["resumed"], ids=lambda value: str(value)[:2])
async def test_golden_updates_after_a_resume(seq: int, expected: list[Any]) -> None:
    items = rich_items()
    stop = next(position for position, item in enumerate(items) if isinstance(item, RunStop) and item.seq == seq)
    async with screen(CWD, [item for item in items[: stop + 1] if isinstance(item, Event)]) as shown:
        assert text(await shown.show(*items[stop + 1 :])) == text(expected)


@pytest.mark.parametrize("kind", [FileChanged, CondensationRequest, ToolCall], ids=lambda kind: kind.kind)
async def test_updates_after_a_load_continue(kind: type[Event]) -> None:
    items = rich_items()
    tried = 0
    for position, item in enumerate(items):
        following = [event for event in items[position + 1 : position + 3] if isinstance(event, Event)]
        if not isinstance(item, kind) or len(following) < 2 or tried == MOMENTS:
            continue
        tried += 1
        async with screen(CWD) as never_closed, screen(CWD, events_of(items[: position + 1])) as loaded:
            await never_closed.show(*items[: position + 1])
            await loaded.replay(events_of(items[: position + 1]))
            assert text(await loaded.show(*following)) == text(await never_closed.show(*following))


def test_golden_commands_update() -> None:
    assert text(next(WRITER.live([updates.commands_update()]))) == text(GOLDEN["commands"])


async def test_ended_calls_do_not_change() -> None:
    async with screen(CWD) as shown:
        live = await shown.show(*rich_items())
    for sent in (live, GOLDEN["replayed"]):
        ended: set[str] = set()
        for update in sent:
            call = update.get("toolCallId")
            assert call not in ended, update
            if update.get("status") in ("completed", "failed"):
                ended.add(call)
        assert len(ended) > 5


def test_golden_updates_are_valid_and_complete() -> None:
    updates = GOLDEN["live"]
    for update in updates:
        params = {"sessionId": "s", "update": update}
        validate_outgoing({"jsonrpc": "2.0", "method": "session/update", "params": params}, None)
    kinds = {update["kind"] for update in updates if update["sessionUpdate"] == "tool_call"}
    # A fetch is shown as a read is, except for its kind.
    assert kinds == {*(tool.kind for tool in TOOLS.values()), "execute", "think", "other"} - {"fetch"}
    calls = [update for update in updates if "tool_call" in update["sessionUpdate"]]
    assert {block["type"] for call in calls for block in call.get("content", ())} == {"content", "diff"}
