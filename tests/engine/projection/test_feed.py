"""What the model has not read yet of what happened to the namespace."""

from __future__ import annotations

import pytest

from engine.events import Event
from engine.events.conversation import AgentReasoning, AgentText, ToolCall, UserMessage
from engine.events.session import EnvironmentRestored
from engine.ids import MessageId, ToolCallId
from engine.projection.feed import Feed

RESTORED = EnvironmentRestored(executions=2, divergences=("<statement 1> printed nothing",))
NEWS = ("<statement 1> printed nothing", "rebuilt in a new worker: 2 statements ran again")


def feed_of(*events: Event) -> Feed:
    feed = Feed()
    for event in events:
        feed.apply(event)
    return feed


def test_a_rebuild_is_news_until_the_model_begins_to_answer() -> None:
    assert feed_of(RESTORED).news == NEWS
    assert feed_of(RESTORED, RESTORED).news == NEWS * 2


@pytest.mark.parametrize(
    "read",
    [
        AgentText(message_id=MessageId("m"), text="so"),
        AgentReasoning(message_id=MessageId("m"), text="hm"),
        ToolCall(tool_call_id=ToolCallId("c"), tool="python", arguments={}),
    ],
)
def test_an_answer_takes_the_news(read: Event) -> None:
    assert feed_of(RESTORED, read).news == ()
    assert feed_of(RESTORED, read, RESTORED).news == NEWS


@pytest.mark.parametrize(
    "other",
    [
        AgentText(message_id=MessageId("m"), text="a command's", aside=True),
        ToolCall(tool_call_id=ToolCallId("c"), tool="read", arguments={}, parent_id=ToolCallId("p")),
        UserMessage(message_id=MessageId("u"), text="hello"),
    ],
)
def test_what_no_model_answered_leaves_them(other: Event) -> None:
    assert feed_of(RESTORED, other).news == NEWS
