"""The Python SDK's client, which is not ours and reads strictly, drives a whole session."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support import acp_sdk as acp
from tests.support.agents import AGENT, SECONDS
from tests.support.coding_tasks import coding_task, environment, suite_passes
from tests.support.scripts import scripted

pytestmark = pytest.mark.anyio


class Editor:
    """Keeps every update the SDK could read."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.arrived = anyio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self.arrived.set()

    async def request_permission(self, options: Any, session_id: str, tool_call: Any, **_: Any) -> Any:
        raise AssertionError("nothing that the user typed asks")

    async def until(self, wanted: type, **fields: object) -> Any:
        with anyio.fail_after(SECONDS):
            while True:
                for update in self.updates:
                    if isinstance(update, wanted) and all(getattr(update, k) == v for k, v in fields.items()):
                        return update
                self.arrived = anyio.Event()
                await self.arrived.wait()


async def test_the_sdk_client_drives_a_whole_session(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.md").write_text("# Notes\nfirst\n")
    environment = {**os.environ, "REWINDOW_STATE_DIR": str(tmp_path / "state")}
    editor = Editor()
    with anyio.fail_after(60):
        async with acp.spawn_agent_process(editor, str(AGENT), env=environment) as (agent, _process):
            hello = await agent.initialize(protocol_version=1)
            assert hello.protocol_version == 1
            assert hello.agent_info is not None
            assert hello.agent_info.name == "rewindow"
            session = await agent.new_session(cwd=str(project), mcp_servers=[])

            answer = await agent.prompt(session.session_id, [acp.text_block("x = 6 * 7\nprint('hello')\nx")])
            assert answer.stop_reason == "end_turn"
            call = await editor.until(acp.schema.ToolCallStart)
            assert call.kind == "execute"
            assert call.raw_input["command"] == "x = 6 * 7\nprint('hello')\nx"
            done = await editor.until(acp.schema.ToolCallProgress, status="completed")
            assert done.tool_call_id == call.tool_call_id
            assert done.content[0].content.text == "```\nhello\n```"
            await editor.until(acp.schema.UsageUpdate)
            assert (await editor.until(acp.schema.AgentMessageChunk)).content.text == "42"
            await editor.until(acp.schema.AvailableCommandsUpdate)

            link = acp.resource_link_block("notes.md", (project / "notes.md").as_uri())
            answer = await agent.prompt(session.session_id, [acp.text_block("notes_md.Run()"), link])
            assert answer.stop_reason == "end_turn"
            (project / "notes.md").write_text("# Notes\nsecond\n")
            await agent.prompt(session.session_id, [acp.text_block("x += 1")])
            change = await editor.until(acp.schema.ToolCallStart, title="modified notes.md")
            diff = [update for update in editor.updates if getattr(update, "tool_call_id", None) == change.tool_call_id]
            assert "-first\n+second" in diff[-1].content[0].content.text

            before = len(editor.updates)
            async with anyio.create_task_group() as tasks:
                ended: list[Any] = []

                async def prompt_forever() -> None:
                    ended.append(await agent.prompt(session.session_id, [acp.text_block("while True: pass")]))

                tasks.start_soon(prompt_forever)
                await _until_running(editor, before)
                await agent.cancel(session.session_id)
            assert ended[0].stop_reason == "cancelled"
            answer = await agent.prompt(session.session_id, [acp.text_block("assert x == 43; x")])
            assert answer.stop_reason == "end_turn"
            chunks = [update for update in editor.updates if isinstance(update, acp.schema.AgentMessageChunk)]
            assert chunks[-1].content.text == "43"


async def _until_running(editor: Editor, before: int) -> None:
    while not any(getattr(update, "status", None) == "in_progress" for update in editor.updates[before:]):
        editor.arrived = anyio.Event()
        await editor.arrived.wait()


class Deciding(Editor):
    """Allows everything, and keeps what it was asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[acp.schema.ToolCallUpdate] = []

    async def request_permission(self, options: Any, session_id: str, tool_call: Any, **_: Any) -> Any:
        self.asked.append(tool_call)
        (allow,) = [each.option_id for each in options if each.kind == "allow_once"]
        return acp.schema.RequestPermissionResponse(
            outcome=acp.schema.AllowedOutcome(outcome="selected", option_id=allow)
        )


@pytest.mark.slow
async def test_sdk_client_reads_and_answers_every_act(tmp_path: Path) -> None:
    task = coding_task("check")
    project = task.copy(tmp_path / "project")
    state = {"REWINDOW_STATE_DIR": str(tmp_path / "state")}
    editor, model = Deciding(), scripted(tmp_path, *task.script())
    with anyio.fail_after(60):
        async with acp.spawn_agent_process(
            editor, str(AGENT), "--model", model, env={**os.environ, **environment(), **state}
        ) as (agent, _process):
            await agent.initialize(protocol_version=1)
            session = await agent.new_session(cwd=str(project), mcp_servers=[])
            await agent.set_config_option(session_id=session.session_id, config_id="_ask_about", value="acts")
            answer = await agent.prompt(session.session_id, [acp.text_block(task.request)])
            assert answer.stop_reason == "end_turn"
    assert [call.kind for call in editor.asked] == ["edit", "edit", "edit", "execute"]
    diffs = [call.content[0] for call in editor.asked if call.kind == "edit" and call.content]
    assert all(isinstance(diff, acp.schema.FileEditToolCallContent) for diff in diffs)
    assert [Path(diff.path).name for diff in diffs] == ["__init__.py", "test_cached.py", "CHANGELOG.rst"]
    started = [update for update in editor.updates if isinstance(update, acp.schema.ToolCallStart)]
    assert [call.kind for call in started if call.title.startswith("Search")] == ["search"]
    assert suite_passes(project)


class Holding(Editor):
    """Has a buffer with unsaved text, and writes what it is asked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.written: list[tuple[str, str]] = []

    async def read_text_file(self, path: str, session_id: str, **_: Any) -> Any:
        return acp.schema.ReadTextFileResponse(content=self.text)

    async def write_text_file(self, content: str, path: str, session_id: str, **_: Any) -> Any:
        self.written.append((path, content))
        self.text = content
        return acp.schema.WriteTextFileResponse()


@pytest.mark.slow
async def test_sdk_client_offers_unsaved_text_and_accepts_changes(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.md").write_text("# Notes\n")
    editor = Holding("# Notes\nunsaved\n")
    offers = acp.schema.ClientCapabilities(
        fs=acp.schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
    )
    variables = {**os.environ, "REWINDOW_STATE_DIR": str(tmp_path / "state")}
    with anyio.fail_after(60):
        async with acp.spawn_agent_process(editor, str(AGENT), env=variables) as (agent, _process):
            await agent.initialize(protocol_version=1, client_capabilities=offers)
            session = await agent.new_session(cwd=str(project), mcp_servers=[])
            await agent.prompt(session.session_id, [acp.text_block("notes = view('notes.md')")])
            assert "2\tunsaved" in (await editor.until(acp.schema.AgentMessageChunk)).content.text
            await agent.prompt(session.session_id, [acp.text_block("edit('notes.md', 'unsaved', 'changed')")])
            assert editor.written == [(str(project / "notes.md"), "# Notes\nchanged\n")]
