"""`rewindow show --cycles` for people: its layout, and how it goes with the other options."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from engine.cli.show import cycles_text
from engine.core.ids import MessageId, Seq, ToolCallId
from engine.log.cycles import cycles_of, to_plain
from engine.log.events import Event
from engine.log.events.conversation import AgentReasoning, AgentText, RunStop, ToolCall, ToolResult, UserMessage
from engine.log.events.session import PromptQueued, PromptWithdrawn
from tests.support.commands import Home
from tests.support.foreign import DATA, sample


def stamped(*events: Event) -> list[Event]:
    return [replace(event, seq=Seq(seq)) for seq, event in enumerate(events)]


def said(name: str, text: str, **fields: str) -> Event:
    return UserMessage(message_id=MessageId(name), text=text, **fields)


def call(name: str, tool: str, parent: str | None = None, **arguments: object) -> Event:
    parent_id = None if parent is None else ToolCallId(parent)
    return ToolCall(tool_call_id=ToolCallId(name), tool=tool, arguments=arguments, parent_id=parent_id)


def result(name: str, status: str = "ok", parent: str | None = None) -> Event:
    parent_id = None if parent is None else ToolCallId(parent)
    return ToolResult(tool_call_id=ToolCallId(name), status=status, text=f"result of {name}", parent_id=parent_id)


EVERYTHING = stamped(
    AgentText(message_id=MessageId("a0"), text="too early"),
    said("m1", "fix it\nplease"),
    AgentReasoning(message_id=MessageId("r1"), text="\nI think\nso"),
    call("c1", "python", source="read('a')\nwrite('b')"),
    call("c2", "read", parent="c1", path="a"),
    result("c2", parent="c1"),
    call("c3", "write", parent="c1", path="b"),
    result("c3", "error", parent="c1"),
    result("c1"),
    said("m2", "faster", prompt_kind="steer"),
    call("c4", "bash", command="ls"),
    call("c5", "grep", pattern="x" * 200),
    result("c4", "rejected"),
    AgentText(message_id=MessageId("a1"), text="Done."),
    PromptQueued(message_id=MessageId("m3"), text="then this"),
    PromptQueued(message_id=MessageId("m4"), text="not this"),
    PromptWithdrawn(message_id=MessageId("m4")),
    RunStop(reason="error", cause="max_tokens", detail="full\nup"),
    said("m5", "and"),
)

LAYOUT = """\
cycle 1 (direct)> fix it
  reasoning> I think
    statement ok        python read('a')
    read-group
      ok        read {"path":"a"}
    write-group
      error     write {"path":"b"}
  steer> faster
  ai-block
    bash-group
      rejected  bash {"command":"ls"}
    read-group
      open      grep {"pattern":"%s…
  agent> Done.
  [error (max_tokens): full]

cycle 2 (direct)> and
  [still running]

queue
  m3> then this

withdrawn
  m4> not this

outside all cycles
  agent> too early

anomalies
  event 0, output-while-idle (a0): the agent put something out while idle; it belongs to no cycle
  event 18, queue-jumped (m5): a message became a root although followUps of an earlier run waited""" % ("x" * 87)


def test_cycles_are_laid_out_with_everything_about_them() -> None:
    assert "\n\n".join(cycles_text(cycles_of(EVERYTHING))) == LAYOUT


def test_every_step_of_the_model_has_its_line() -> None:
    for name in ("openai.json", "anthropic.json", "openhands.jsonl"):
        model = cycles_of(sample(name).events)
        text = "\n".join(cycles_text(model))
        for cycle in to_plain(model)["cycles"]:
            for group in (group for step in cycle["steps"] for group in step.get("groups", ())):
                assert f"    {group['type']}\n" in text
                assert all(f"{each['result']['status']:<9} {each['tool']} " in text for each in group["calls"])


def test_a_log_without_a_request_says_so() -> None:
    assert list(cycles_text(cycles_of([]))) == ["No request yet."]


def test_the_command_prints_text_or_with_json_the_model(empty: Home) -> None:
    assert empty.run("import", str(DATA / "openai.json"), "--as", "ses_x").returncode == 0
    text = empty.run("show", "ses_x", "--cycles").stdout
    expected = "\n\n".join(cycles_text(cycles_of(sample("openai.json").events)))
    assert text.split("\n\n", 1)[1] == expected + "\n\n"
    model = json.loads(empty.run("show", "ses_x", "--cycles", "--json").stdout)
    assert (model["schema"], len(model["cycles"]), model["state"]) == ("request-cycles/1", 2, "idle")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--json"], "--json goes with --cycles"),
        (["--events", "--json"], "--json goes with"),
        (["--events", "--cycles"], "give one"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(home: Home, options: list[str], reason: str) -> None:
    done = home.run("show", "ses_a", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr


@pytest.mark.parametrize("command", ["show", "import"])
def test_the_help_has_examples(empty: Home, command: str) -> None:
    assert f"  rewindow {command} " in empty.run(command, "--help").stdout.split("Examples:")[1]
