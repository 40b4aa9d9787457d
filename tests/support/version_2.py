"""A client of version 2 in front of an agent in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.memory import Client
from tests.support.transcripts import Message

INFO = {"name": "test", "version": "1"}
FORMS = {"elicitation": {"form": {}}}


async def initialize(client: Client, **capabilities: Any) -> Message:
    """The answer to `initialize`."""
    params = {"protocolVersion": 2, "info": INFO, "capabilities": capabilities}
    answer: Message = await client.call("initialize", params)
    return answer


async def opened(client: Client, cwd: Path, **capabilities: Any) -> str:
    """Initialize, and open a session; return its id."""
    await initialize(client, **capabilities)
    answer: Message = await client.call("session/new", {"cwd": str(cwd)})
    return str(answer["sessionId"])


async def inserted(client: Client, session: str, text: str) -> str:
    """Prompt, and wait until the message has its place; return its id."""
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    answer: Message = await client.call("session/prompt", params)
    assert set(answer) == {"messageId"}
    return str(answer["messageId"])


async def worked(client: Client, session: str, text: str) -> Message:
    """Prompt, and wait until all work has ended; return the last state."""
    count = len(idles(client))
    await inserted(client, session, text)
    while len(idles(client)) == count:
        await client.next()
    return idles(client)[-1]


async def rested(client: Client) -> None:
    """Wait until the last state is idle and nothing more happens."""
    while not states(client) or states(client)[-1]["state"] != "idle":
        await client.next()
    await client.settled()


async def chosen_mode(client: Client, session: str, mode: str) -> None:
    """Set the mode."""
    params = {"sessionId": session, "configId": "mode", "type": "id", "value": mode}
    await client.call("session/set_config_option", params)


def states(client: Client) -> list[Message]:
    """The states so far."""
    return [
        {key: value for key, value in update.items() if key != "sessionUpdate"}
        for update in client.updates("state_update")
    ]


def idles(client: Client) -> list[Message]:
    """The idle states so far."""
    return [state for state in states(client) if state["state"] == "idle"]
