"""What a client can do wrong over the wire: each gets a clear error, and the agent goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import Agent


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with Agent(tmp_path / "state") as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """An agent that many mistakes are made with, one after the other; it is past `initialize`."""
    with Agent(tmp_path_factory.mktemp("shared") / "state") as running:
        running.initialize()
        yield running


def works(agent: Agent, cwd: Path) -> bool:
    """Whether a new session still runs statements."""
    return agent.prompt(agent.new_session(cwd), "1 + 1") == "end_turn"


@pytest.mark.slow
def test_a_line_of_sixty_megabytes_is_refused_without_being_kept(agent: Agent, tmp_path: Path) -> None:
    agent.initialize()
    chunk = b"x" * (1 << 20)
    agent.write(b'{"jsonrpc":"2.0","id":1,"method":"')
    for _ in range(60):
        agent.write(chunk)
    agent.write(b'"}\n')
    answer = agent.next()
    assert answer is not None
    assert answer["error"]["code"] == -32700
    assert works(agent, tmp_path)
