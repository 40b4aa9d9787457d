"""The echo agent of the Python SDK for ACP, as its documentation has it. Run as a script, in the SDK's own venv."""

import asyncio
from typing import Any

import acp
from acp import schema


class EchoAgent(acp.Agent):
    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        return schema.InitializeResponse(protocol_version=1)

    async def new_session(self, **_: Any) -> schema.NewSessionResponse:
        return schema.NewSessionResponse(session_id="sdk")

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        text = prompt[0].text
        for _ in range(int(text) if text.isdigit() else 1):
            await self.client.session_update(session_id, acp.update_agent_message_text("x"))
        return schema.PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        pass


asyncio.run(acp.run_agent(EchoAgent()))
