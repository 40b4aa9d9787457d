"""All that an editor does with models in one session: the project, the model's answers, and what must be seen of it.

Knows no client. `tests/support/tour_clients.py` has one for each; `tests/e2e/test_tour.py` sends each on the tour.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from tests.support.llm_answers import anthropic
from tests.support.llm_server import Answer, LlmServer, llm_server

KEY: Final = "sk-typed-into-a-terminal-0123456789"
MODEL, OTHER = "provider:anthropic:claude-one", "provider:anthropic:claude-two"
_WITHOUT_KEYS: Final = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"), "")
_THINKING: Final = ("thinking", "output_config")
"""The fields of a request that make Anthropic's models think."""


@dataclass(frozen=True)
class Turn:
    """What the client has of a prompt: the stop reason, None for an error, and the updates as they are on the wire."""

    stop_reason: str | None
    updates: Sequence[dict[str, Any]]

    @property
    def text(self) -> str:
        chunks = [update for update in self.updates if update["sessionUpdate"] == "agent_message_chunk"]
        return "".join(chunk["content"]["text"] for chunk in chunks)

    @property
    def titles(self) -> list[str]:
        return [str(update["title"]) for update in self.updates if update.get("title")]


class TourClient(Protocol):
    """A client with one session in the project's `app`. It allows everything, and has no file open."""

    def prompt(self, text: str) -> Turn: ...

    def choose(self, option: str, value: str) -> None:
        """Sets an option of the session."""
        ...

    def authenticate(self) -> None:
        """Types the key where the client makes the user type it."""
        ...

    def logout(self) -> None: ...

    def seen(self) -> str:
        """All that the agent wrote so far, with its stderr if the client keeps it."""
        ...


@dataclass(frozen=True)
class Surroundings:
    """Where a client starts the agent: a user without keys, and a project."""

    folder: Path
    project: Path
    environ: dict[str, str]
    """The variables that differ from ours."""


Opened = Callable[[Surroundings], AbstractContextManager[TourClient]]


def take_tour(folder: Path, opened: Opened) -> None:
    """Sends a client from signing in to signing out."""
    with llm_server() as server:
        surroundings = _surroundings(folder, server)
        with opened(surroundings) as client:
            assert client.prompt("hello").stop_reason is None
            client.authenticate()
            _read_the_project(client, server)
            _choose(client, server)
            _overcome_failures(client, server)
            client.logout()
            server.answers.append(anthropic("Not for you."))
            assert client.prompt("again").stop_reason is None
            assert len(server.answers) == 1
    assert "claude-one needs credentials" in client.seen()  # so it has what the agent wrote
    assert KEY not in client.seen()


def _told(client: TourClient, server: LlmServer, text: str, *answers: Answer) -> tuple[Turn, Any]:
    """The turn of a prompt, and the body of its last request."""
    server.answers += answers
    turn = client.prompt(text)
    assert turn.stop_reason == "end_turn", turn
    assert server.answers == []
    return turn, server.asked[-1].body


def _read_the_project(client: TourClient, server: LlmServer) -> None:
    call = json.dumps({"source": "v = view('deep/code.py'); v"})
    turn, body = _told(client, server, "look", anthropic("Looking.", call), anthropic("Done."))
    assert turn.text.endswith("Done.")
    assert body["model"] == "claude-one", body["model"]
    everything = json.dumps(body)
    for word in ("The root's word.", "The word of app.", "The word of deep.", "release: Make a release."):
        assert everything.count(word) == 1, word


def _choose(client: TourClient, server: LlmServer) -> None:
    client.choose("model", OTHER)
    client.choose("thought_level", "high")
    _, body = _told(client, server, "/review deep/code.py", anthropic("Reviewed."))
    assert body["model"] == "claude-two", body["model"]
    assert "Review deep/code.py now." in json.dumps(body)
    assert not body.keys().isdisjoint(_THINKING), body.keys()
    client.choose("thought_level", "off")


def _overcome_failures(client: TourClient, server: LlmServer) -> None:
    limit = Answer(429, (b'{"error": {"type": "rate_limit_error", "message": "slow"}}',), {"Retry-After": "1"})
    lost = Answer(pieces=anthropic("Half of it.").pieces[:6], hang=True)
    turn, body = _told(client, server, "/release", limit, lost, anthropic("Whole."))
    assert "Tag it." in json.dumps(body)
    assert body.keys().isdisjoint(_THINKING), body.keys()
    assert any("attempt 2" in title for title in turn.titles), turn.titles
    assert turn.text.endswith("Whole."), turn.text


def _surroundings(folder: Path, server: LlmServer) -> Surroundings:
    models = {"data": [{"id": "claude-one", "type": "model"}, {"id": "claude-two"}]}
    server.lists["/v1/models"] = Answer(pieces=(json.dumps(models).encode(),))
    home = folder / "home"
    home.mkdir()
    environ = {
        **_WITHOUT_KEYS,
        "HOME": str(home),
        "XDG_CONFIG_HOME": "",
        "DBUS_SESSION_BUS_ADDRESS": "",
        "ANTHROPIC_BASE_URL": server.url,
        "REWINDOW_STATE_DIR": str(folder / "state"),
        "REWINDOW_MODEL": MODEL,
        "REWINDOW_STALL_SECONDS": "1",
    }
    return Surroundings(folder, _project(folder / "project"), environ)


def _project(root: Path) -> Path:
    for path, text in {
        ".git/HEAD": "ref: refs/heads/topic\n",
        "AGENTS.md": "The root's word.",
        "app/AGENTS.md": "The word of app.",
        "app/deep/AGENTS.md": "The word of deep.",
        "app/deep/code.py": "x = 1\n",
        ".agents/skills/release/SKILL.md": "---\nname: release\ndescription: Make a release.\n---\nTag it.\n",
        ".agents/commands/review.md": "---\ndescription: Review a file.\n---\nReview $1 now.",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root
