"""The Python SDK's client, which is not ours and reads strictly, drives a whole session."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support import acp_sdk as acp
from tests.support.agents import AGENT, SECONDS

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
            change = await editor.until(acp.schema.ToolCallStart, title="Follow notes.md: modified")
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
