"""What a reply held besides its text and one statement is named in a terminal, live and of the past."""

from __future__ import annotations

import pytest

from engine.cli.terminal.rendering import painted, plain
from engine.cli.terminal.transcript import Transcript
from engine.context.tail.results import REST_LEFT_OUT
from engine.core.ids import ToolCallId
from engine.log.events.conversation import ToolCall


@pytest.mark.parametrize("rest_left_out", [True, False])
def test_a_person_is_told_that_the_rest_of_a_reply_was_left_out(rest_left_out: bool) -> None:
    call = ToolCall(tool_call_id=ToolCallId("c"), tool="python", rest_left_out=rest_left_out)
    on = Transcript("/home/me", plain)
    told = f"[{REST_LEFT_OUT}]\n" if rest_left_out else ""
    assert painted(on.show(call), in_colour=False) == told
    assert painted(Transcript("/home/me", plain).show_past(call), in_colour=False) == told
