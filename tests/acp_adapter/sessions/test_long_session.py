"""200 Rounds by three models that read less than the budget: nothing is lost, and each condensation is said once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from engine.core.clock import SystemClock
from engine.core.tokens import count
from engine.log.store.memory import MemoryStore
from tests.support.llm_answers import anthropic, chat
from tests.support.llm_server import Answer, Asked, LlmServer, llm_server
from tests.support.memory import in_memory, logged

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROUNDS, TURN_OF = 200, 50
SECONDS: Final = 600.0
BUDGET: Final = 32_000
WINDOW: Final = 24_000
"""What the providers read in truth."""
NAMING, SILENT, CLAUDE = "openai-chat:naming", "openai-chat:silent", "anthropic:claude-test"
REFUSALS: Final = {
    NAMING: f"This model's maximum context length is {WINDOW} tokens",
    SILENT: "context_length_exceeded",
    CLAUDE: f"prompt is too long: 99999 tokens > {WINDOW} maximum",
}
SUMMARY: Final = "What was said before, in short."


class Provider:
    """A server that counts, and refuses what is longer than the window."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, bool]] = []
        """The model of each request, and whether it was refused."""

    def answer(self, asked: Asked) -> Answer:
        spec = CLAUDE if "messages" in asked.path else f"openai-chat:{asked.body['model']}"
        size = count(json.dumps(asked.body["messages"]))
        self.requests.append((spec, size > WINDOW))
        if size > WINDOW:
            return Answer(400, (json.dumps({"error": {"message": REFUSALS[spec]}}).encode(),))
        sums_up = asked.body.get("tool_choice") in ("none", {"type": "none"})
        text = SUMMARY if sums_up else "Noted: " + "yes " * 20
        return anthropic(text) if spec == CLAUDE else chat(text)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LlmServer]:
    with llm_server() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


async def test_a_long_session_loses_nothing(tmp_path: Path, server: LlmServer) -> None:
    provider, store = Provider(), MemoryStore(SystemClock())
    server.answering = provider.answer
    specs = (NAMING, SILENT, CLAUDE)
    settings = {"model": f"provider:{NAMING}", "context_budget": BUDGET}
    async with in_memory(tmp_path, store=store, environ=server.environment(), seconds=SECONDS, **settings) as agent:
        await agent.initialize()
        session = await agent.new_session(tmp_path)
        for number in range(ROUNDS):
            if number % TURN_OF == 0:
                model = f"provider:{specs[number // TURN_OF % len(specs)]}"
                wanted = {"sessionId": session, "configId": "model", "value": model}
                await agent.call("session/set_config_option", wanted)
            fact = f"fact-{number}-" + "word " * 900
            assert await agent.prompt(session, fact) == "end_turn"
            assert f"fact-{number}-" in json.dumps(server.asked[-1].body["messages"][-1])
        updates = agent.updates()
    events = logged(store, session)
    kinds = [event["kind"] for event in events]
    assert kinds.count("user_message") == kinds.count("agent_text") == ROUNDS
    condensed = kinds.count("condensation")
    assert condensed > 4
    cards = [update for update in updates if update.get("title") == "Condense the conversation"]
    assert len(cards) == kinds.count("condensation_request")
    ended = [update for update in updates if "with this summary" in json.dumps(update)]
    assert len(ended) == condensed
    refused = Counter(spec for spec, is_refused in provider.requests if is_refused)
    assert refused[NAMING] == 2  # once for each time that it is chosen, because it named its window
    assert 2 <= refused[SILENT] <= 5  # the prompts grow again after each
