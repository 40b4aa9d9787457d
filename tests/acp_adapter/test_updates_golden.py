"""The updates of an eventful session, key by key: live, loaded at any moment, and after a resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from acp_adapter.wire.shown import NOTHING_SHOWN
from engine import TOOLS
from engine.log.events import EVENTS, AnyEvent, Event
from engine.log.events.conversation import CondensationRequest, RunStop, ToolCall
from engine.log.events.nodes import FileChanged
from engine.session.journal import FilesPutBack, OutputStreamed, ReasoningStreamed, StatementRerun, TextStreamed
from tests.support.acp_schema import validate_outgoing
from tests.support.rich_log import CWD, events_of, rich_items
from tests.support.scripts import transcript
from tests.support.shown import CODEC, LoggedFacts, screen

pytestmark = pytest.mark.anyio

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "data" / "acp" / "updates_v1.json").read_text(encoding="utf-8")
)


MOMENTS = 6
"""At most, of each kind of event after which a session is loaded."""


def text(value: object) -> str:
    """As it is sent: the order of keys counts."""
    return json.dumps(value, ensure_ascii=False, indent=1)


def test_the_session_holds_every_kind_of_event_and_of_signal() -> None:
    assert {type(item) for item in rich_items()} == {
        *EVENTS,
        TextStreamed,
        ReasoningStreamed,
        OutputStreamed,
        FilesPutBack,
        StatementRerun,
    }


async def test_what_happens_is_shown_as_recorded() -> None:
    async with screen(CWD) as shown:
        assert text(await shown.show(*rich_items())) == text(GOLDEN["live"])


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
async def test_a_load_at_any_moment_shows_the_log_and_then_what_is_being_streamed(every: int) -> None:
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
    """Every update of every event, one after the other."""
    facts, state, sent = LoggedFacts(CWD, log), NOTHING_SHOWN, list[Any]()
    for event in log:
        state, updates = CODEC.updates.event_updates(cast("AnyEvent", event), state, facts, is_live=False)
        sent += updates
    return sent


def drawn(updates: list[Any]) -> object:
    """What an editor holds after these updates, the user's messages too."""
    users = [(update["messageId"], update["content"]) for update in updates if "user" in update["sessionUpdate"]]
    return users, transcript(updates)


def stale(updates: list[Any]) -> list[Any]:
    """What is told more than once: calls, and what replaces itself."""
    told = [
        update.get("toolCallId", update["sessionUpdate"])
        for update in updates
        if "chunk" not in update["sessionUpdate"]
    ]
    return [name for name in told if told.count(name) > 1]


@pytest.mark.slow
async def test_a_load_changes_nothing_about_what_is_shown_afterwards() -> None:
    items = rich_items()
    live: list[Any] = []
    async with screen(CWD) as shown:
        for position, item in enumerate(items):
            live += await shown.show(item)
            await shown.replay(events_of(items[: position + 1]))
    assert text(live) == text(GOLDEN["live"])


@pytest.mark.parametrize(("seq", "expected"), GOLDEN["resumed"], ids=lambda value: str(value)[:2])
async def test_a_session_that_is_resumed_goes_on_as_recorded(seq: int, expected: list[Any]) -> None:
    items = rich_items()
    stop = next(position for position, item in enumerate(items) if isinstance(item, RunStop) and item.seq == seq)
    async with screen(CWD, [item for item in items[: stop + 1] if isinstance(item, Event)]) as shown:
        assert text(await shown.show(*items[stop + 1 :])) == text(expected)


@pytest.mark.parametrize("kind", [FileChanged, CondensationRequest, ToolCall], ids=lambda kind: kind.kind)
async def test_a_session_that_is_loaded_goes_on_where_its_log_ends(kind: type[Event]) -> None:
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


def test_the_commands_are_announced_as_recorded() -> None:
    assert text(CODEC.updates.commands_update()) == text(GOLDEN["commands"])


async def test_a_call_does_not_change_after_it_was_shown_as_ended() -> None:
    async with screen(CWD) as shown:
        live = await shown.show(*rich_items())
    for updates in (live, GOLDEN["replayed"]):
        ended: set[str] = set()
        for update in updates:
            call = update.get("toolCallId")
            assert call not in ended, update
            if update.get("status") in ("completed", "failed"):
                ended.add(call)
        assert len(ended) > 5


def test_what_is_recorded_is_valid_and_has_every_kind_of_call_and_of_content() -> None:
    updates = GOLDEN["live"]
    for update in updates:
        params = {"sessionId": "s", "update": update}
        validate_outgoing({"jsonrpc": "2.0", "method": "session/update", "params": params}, None)
    kinds = {update["kind"] for update in updates if update["sessionUpdate"] == "tool_call"}
    assert kinds == {*(tool.kind for tool in TOOLS.values()), "execute", "think", "other"}
    calls = [update for update in updates if "tool_call" in update["sessionUpdate"]]
    assert {block["type"] for call in calls for block in call.get("content", ())} == {"content", "diff"}
