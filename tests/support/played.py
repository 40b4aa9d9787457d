"""Sessions with a scripted model behind a server that keeps what it was asked: what each prompt said can be read."""

from __future__ import annotations

import json

from tests.support.agents import Agent
from tests.support.llm_answers import chat
from tests.support.llm_server import Answer, Asked, LlmServer

MODEL = ("--model", "provider:openai:gpt-5")
"""Options of an agent that asks the server."""


def runs(source: str) -> Answer:
    """A reply that is a statement."""
    return chat("", json.dumps({"source": source}))


def result(asked: Asked) -> str:
    """The result of the latest statement, as the model reads it in that prompt."""
    return next(str(each["content"]) for each in reversed(asked.body["messages"]) if each["role"] == "tool")


def tail(asked: Asked) -> str:
    """What stands at the end of the prompt."""
    return str(asked.body["messages"][-1]["content"])


def play(agent: Agent, server: LlmServer, session: str, *sources: str) -> list[Asked]:
    """One prompt, to which the model replies with these statements and a word; the prompts that it read."""
    server.asked.clear()
    server.answers += [*map(runs, sources), chat("Done.")]
    assert agent.prompt(session, "go on") == "end_turn"
    return list(server.asked)
