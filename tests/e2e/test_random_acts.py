"""Sessions whose statements, answers, cancels, kills and changes by somebody else are drawn at random."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import Agent
from tests.support.scripts import load, logged, scripted, transcript
from tests.support.transcripts import Message, asks_permission, is_response_to, selected

SECONDS = 40.0
FILES = ("a.txt", "s/b.txt", "crlf.txt")
WORDS = ("one", "two", "three", "four")
PROCESSES = 4
ACTS = (
    "edit({file!r}, {word!r}, {other!r}, count=None)",
    "edit({file!r}, {word!r}, {other!r})",
    "write({file!r}, '{word}\\n{other}\\n')",
    "open({file!r}, 'a').write('{word}\\n')",
    "bash('echo {word} >> {file}; cat {file}')",
    "grep({word!r})",
    "find('*.txt')",
    "read({file!r})",
    "view({file!r}, tokens=50)",
)
CAUGHT = "try:\n    {act}\nexcept Exception as error:\n    print(type(error).__name__)\n"


class KilledError(Exception):
    """Raised when the agent was killed, at an instant that chance has chosen."""


class Chance:
    """One user with a project, whose decisions come from a seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._random = random.Random(seed)
        self._folder = folder
        self.project = folder / "project"
        (self.project / "s").mkdir(parents=True)
        for file in FILES:
            (self.project / file).write_bytes(b"one\r\ntwo\r\n" if file == "crlf.txt" else b"one\ntwo\nthree\n")

    def statement(self) -> str:
        pick = self._random.choice
        acts = [
            pick(ACTS).format(file=pick(FILES), word=pick(WORDS), other=pick(WORDS))
            for _ in range(self._random.randint(1, 4))
        ]
        return "\n".join(acts) if self._random.random() < 0.4 else "".join(CAUGHT.format(act=act) for act in acts)

    def agent(self, turns: int) -> Agent:
        """One whose model has enough to say for so many turns."""
        replies: list[dict[str, Any]] = []
        for _ in range(turns):
            replies += [{"text": "Next.", "statement": self.statement()} for _ in range(self._random.randint(1, 3))]
            replies.append({"text": "Done."})
        model = scripted(self._folder, *replies)
        return Agent(self._folder / "state", "--model", model, permission=None)

    def turn(self, agent: Agent, session: str) -> None:
        """Prompts and does what chance wants until the turn has ended. Raises KilledError."""
        prompt = agent.begin_prompt(session, "go")
        while True:
            message = agent.next(SECONDS)
            assert message is not None, agent.stderr
            if is_response_to(message, prompt):
                assert message["result"]["stopReason"] in ("end_turn", "cancelled")
                return
            if asks_permission(message):
                self._decide(agent, session, message)
            elif self._random.random() < 0.01:
                agent.notify("session/cancel", {"sessionId": session})
            elif self._random.random() < 0.005:
                self._kill(agent)

    def _decide(self, agent: Agent, session: str, question: Message) -> None:
        if self._random.random() < 0.15:
            (self.project / self._random.choice(FILES)).write_text(f"{self._random.choice(WORDS)}\n")
        drawn = self._random.random()
        if drawn < 0.85:
            option = "allow_once" if drawn < 0.55 else "allow_always" if drawn < 0.65 else "reject_once"
            agent.answer(question, selected(option))
        elif drawn < 0.9:
            agent.answer(question, {"outcome": {"outcome": "cancelled"}})
        elif drawn < 0.95:
            agent.notify("session/cancel", {"sessionId": session})
        else:
            self._kill(agent)

    def _kill(self, agent: Agent) -> None:
        agent.kill()
        raise KilledError

    def settings(self) -> tuple[str, str]:
        """What is asked about, and the mode."""
        return self._random.choice(("acts", "acts", "statements")), self._random.choice(("ask", "ask", "auto", "plan"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_acts_leave_whole_files_and_load_unchanged(tmp_path: Path, seed: int) -> None:
    chance = Chance(seed, tmp_path)
    session = ""
    for _ in range(PROCESSES):
        agent = chance.agent(turns=2)
        agent.initialize()
        if session:
            load(agent, session, chance.project)
        else:
            session = agent.new_session(chance.project)
        asking, mode = chance.settings()
        agent.call("session/set_config_option", {"sessionId": session, "configId": "_ask_about", "value": asking})
        agent.call("session/set_mode", {"sessionId": session, "modeId": mode})
        try:
            for _ in range(2):
                chance.turn(agent, session)
            assert agent.close() == 0
            shown = transcript(agent.updates())
        except KilledError:
            shown = None
        assert b"Traceback" not in agent.stderr
        _assert_whole(chance.project)
        _assert_shown_again(tmp_path, session, chance.project, shown)
    assert logged(tmp_path / "state", session)


def _assert_whole(project: Path) -> None:
    for file in FILES:
        assert {line.strip().decode() for line in (project / file).read_bytes().split(b"\n")} <= {"", *WORDS}


def _assert_shown_again(folder: Path, session: str, project: Path, shown: Message | None) -> None:
    """In a new process, in which the namespace is made again: nobody is asked, and nothing is written."""
    files = [project / file for file in FILES]
    before = [file.stat().st_mtime_ns for file in files]
    with Agent(folder / "state", permission=None) as agent:
        agent.initialize()
        load(agent, session, project)
        if shown is not None:
            again = transcript(agent.updates())
            assert (again["order"], again["calls"]) == (shown["order"], shown["calls"])
        assert agent.prompt(session, "6 * 7", seconds=SECONDS) == "end_turn"
        assert agent.text().endswith("42")
        assert not any(map(asks_permission, agent.received))
    assert sorted(path for path in project.rglob("*") if path.is_file()) == sorted(files)
    assert [file.stat().st_mtime_ns for file in files] == before
