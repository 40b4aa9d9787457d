"""Random sessions in which some statements see what no second run sees: each is reported once, and nothing else is."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import Agent
from tests.support.past import Unchecked, blob, events_in, exchange
from tests.support.past_statements import BEGINNING, FILES, ORDINARY, Chance
from tests.support.scripts import load

TOGETHER = 10
PLANTED = {
    "file": "{name} = Path('s/changing.txt').read_text()",
    "size": "{name} = [Path('s/changing.txt').stat().st_size]",
    "time": "{name} = time.time()",
    "time in a list": "{name} = [1, {{'at': time.time_ns()}}]",
    "urandom": "{name} = os.urandom(8)",
    "random": "{name} = random.random()",
    "answer": "{name} = read('s/told.txt')",
    "answer in an object": "{name} = C(read('s/told.txt'))",
}
"""What sees another thing when it runs again: "answer" because its recorded answer was tampered with."""

SHOWN = "[(name, getattr(value, 'n', value)) for name, value in sorted(globals().items()) if name[:8] == 'planted_']"
"""Comes last: it shows the same again, because what differed was set from what was kept."""


class Session:
    """One session with what is planted in it, by the number of its statement."""

    def __init__(self, seed: int, project: Path) -> None:
        self.project = project
        self.session_id = ""
        self.planted: dict[int, str] = {}
        for file in (*FILES, "s/changing.txt", "s/told.txt"):
            path = project / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"one\n{'told' if 'told' in file else file}\n")
        self.sources = [BEGINNING, *self._drawn(Chance(seed, probed=False)), SHOWN]

    def _drawn(self, chance: Chance) -> Iterator[str]:
        places = chance.random.sample(range(2, 10), chance.random.randint(1, 4))
        for number in range(2, 10):
            if number not in places:
                yield chance.several(ORDINARY)
                continue
            self.planted[number] = kind = chance.random.choice(list(PLANTED))
            yield PLANTED[kind].format(name=f"planted_{number}")

    def tamper(self, state: Path) -> None:
        """Another file than the statements saw, and another answer than the host gave."""
        (self.project / "s/changing.txt").write_text("something else\n")
        statements = {event["statement_id"]: event for event in events_in(state, self.session_id, "statement_recorded")}
        executions = {
            event["execution_id"]: statements[event["statement_id"]]["index"]
            for event in events_in(state, self.session_id, "execution_started")
        }
        for event in events_in(state, self.session_id, "effect_answered"):
            if self.planted.get(executions[event["execution_id"]], "").startswith("answer"):
                told = blob(state, event["result"])
                assert b"told" in told
                exchange(state, self.session_id, "effect_answered", event["result"], told.replace(b"told", b"lied"))


def many(folder: Path, first: int, count: int) -> list[str]:
    """Plays so many sessions, loads them in another agent, and says what is reported falsely, twice or not at all."""
    state = folder / "state"
    sessions = [Session(seed, folder / f"p{seed}") for seed in range(first, first + count)]
    chance = random.Random(first)
    with contextlib.ExitStack() as stack:
        agent = Agent(state, coverage=Unchecked())
        stack.callback(lambda: agent.process.poll() is None and agent.kill())
        agent.initialize()
        for each in sessions:
            each.session_id = agent.new_session(each.project)
        for number in range(len(sessions[0].sources)):
            prompts = [agent.begin_prompt(each.session_id, each.sources[number]) for each in sessions]
            for prompt in prompts:
                agent.seen(lambda message, prompt=prompt: "method" not in message and message.get("id") == prompt)
        agent.kill() if chance.random() < 0.5 else agent.close()
    wrong: list[str] = []
    with Agent(state, coverage=Unchecked()) as again:
        again.initialize()
        for each in sessions:
            each.tamper(state)
            load(again, each.session_id, each.project)
            assert again.prompt(each.session_id, "6 * 7") == "end_turn"
            wrong += [f"{each.project.name}: {line}" for line in _wrong(each, state)]
    return wrong


def _wrong(session: Session, state: Path) -> list[str]:
    (restored,) = events_in(state, session.session_id, "environment_restored")
    found: dict[str, list[str]] = {}
    for line in restored["divergences"]:
        found.setdefault(line[: line.find(">") + 1], []).append(line)
    expected = {f"<statement {number}>": kind for number, kind in session.planted.items()}
    wrong = [line for label, lines in found.items() if label not in expected for line in lines]
    wrong += [f"{kind} of {label} not reported" for label, kind in expected.items() if label not in found]
    return [*wrong, *(f"reported {len(lines)} times: {lines}" for lines in found.values() if len(lines) > 1)]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 500, TOGETHER))
def test_rerun_reports_each_difference_once_and_nothing_else(tmp_path: Path, first: int) -> None:
    assert many(tmp_path, first, TOGETHER) == []
