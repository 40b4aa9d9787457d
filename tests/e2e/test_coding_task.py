"""A coding task on a real project, from the first search to the last test, seen from outside of the agent."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.context.tail.results import CLOSING, OPENING
from tests.support.acpx import opened
from tests.support.agents import AGENT, Agent
from tests.support.api_rules import violations
from tests.support.coding_tasks import BIN, Reply, coding_task, environment, suite_passes, texts
from tests.support.commands import COMMAND, Home
from tests.support.llm_answers import ANSWERS
from tests.support.llm_server import Answer, llm_server
from tests.support.scripts import load, logged, scripted, transcript
from tests.support.seen import NEWS
from tests.support.task_checks import TOOLS, Asking, assert_asked, assert_task_was_shown, watched
from tests.support.terminal import CTRL_D, ENTER, Terminal

pytestmark = pytest.mark.slow

SECONDS = 60.0
SLOW = pytest.mark.slow
TASK = coding_task("mru")

ASKING = pytest.mark.parametrize(
    "asking", ["statements", pytest.param("acts", marks=SLOW), pytest.param("nothing", marks=SLOW)]
)


@pytest.fixture(scope="module", autouse=True)
def without_sandbox(as_users_run_it: None) -> Iterator[None]:
    """So that it can be chosen what asks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REWINDOW_SANDBOX", "off")
        yield


@ASKING
def test_acpx_shows_a_coding_task_and_asks_by_mode(tmp_path: Path, asking: Asking) -> None:
    project = TASK.copy(tmp_path / "work")
    before = texts(project)
    with opened(tmp_path, f"{AGENT} --model {scripted(tmp_path, *TASK.script())}", environment()) as acpx:
        if asking == "statements":
            messages = acpx.messages("--approve-all", "exec", TASK.request)
        else:
            acpx.run("sessions", "new")
            acpx.run(*(["set", "_ask_about", "acts"] if asking == "acts" else ["set-mode", "auto"]))
            messages = acpx.messages("--approve-all", "prompt", TASK.request)
    seen = watched(messages)
    assert_task_was_shown(seen, TASK, project, before)
    assert_asked(seen, TASK, asking)


def test_sandboxed_reads_ask_nothing_and_each_act_asks_once(tmp_path: Path) -> None:
    project = TASK.copy(tmp_path / "work")
    before = texts(project)
    agent = f"{AGENT} --model {scripted(tmp_path, *TASK.script())}"
    with opened(tmp_path, agent, {**environment(), "REWINDOW_SANDBOX": "required"}) as acpx:
        seen = watched(acpx.messages("--approve-all", "exec", TASK.request))
    assert [told.partition(":")[0] for told in seen.told] == ["Sandboxed"]
    assert_task_was_shown(seen, TASK, project, before)
    assert_asked(seen, TASK, "acts")


def options(agent: Agent, session: str, asking: Asking) -> None:
    """Sets what is asked about."""
    if asking == "acts":
        agent.call("session/set_config_option", {"sessionId": session, "configId": "_ask_about", "value": "acts"})
    elif asking == "nothing":
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})


def called(answer: Callable[..., Answer], reply: Reply, index: int) -> Answer:
    """A reply that calls the tool `python`."""
    return answer(reply.text, json.dumps({"source": reply.source}), f"call_{index}")


def written(answer: Callable[..., Answer], reply: Reply, _index: int) -> Answer:
    """A reply that writes its statement."""
    return answer(f"{reply.text}\n{OPENING}\n{reply.source}{CLOSING}\n")


MODELS = {"chat": "openai:gpt-5", "anthropic": "anthropic:claude-sonnet-4-5"}


@pytest.mark.parametrize(
    ("api", "form", "asking"),
    [
        ("chat", called, "statements"),
        ("chat", called, "acts"),
        ("chat", called, "nothing"),
        ("anthropic", called, "statements"),
        ("anthropic", called, "acts"),
        ("anthropic", called, "nothing"),
        ("chat", written, "acts"),
        ("anthropic", written, "statements"),
    ],
)
def test_a_providers_model_solves_the_task_just_so(
    tmp_path: Path, api: str, form: Callable[..., Answer], asking: Asking
) -> None:
    project = TASK.copy(tmp_path / "work")
    before = texts(project)
    answers = [form(ANSWERS[api], reply, index) for index, reply in enumerate(TASK.replies)]
    model = MODELS[api]
    with llm_server(*answers, ANSWERS[api](TASK.summary)) as server:
        variables = {"REWINDOW_MODELS_WITHOUT_TOOLS": model} if form is written else {}
        env = {**environment(), **variables, **server.environment()}
        with Agent(tmp_path / "state", "--model", f"provider:{model}", env=env) as agent:
            session = agent.open(project)
            options(agent, session, asking)
            assert agent.prompt(session, TASK.request, seconds=SECONDS) == "end_turn"
            seen = watched(agent.received)
    assert_task_was_shown(seen, TASK, project, before)
    assert_asked(seen, TASK, asking)
    assert len(server.asked) == len(TASK.replies) + 1
    assert [violations(each.path, each.body) for each in server.asked] == [[]] * len(server.asked)
    assert ["tools" in each.body for each in server.asked] == [form is called] * len(server.asked)


ASKED = {
    "statements": {"Run this statement?": 3},
    "acts": {"Write this file?": 8, "Run this command in": 2},
    "what the sandbox lets through": {"Write this file?": 8, "Run this command in": 2},
    "nothing": {},
}
"""The questions of the task in a terminal."""


@pytest.mark.parametrize("asking", list(ASKED))
def test_a_terminal_shows_the_task_and_asks_the_same(tmp_path: Path, asking: str) -> None:
    project = TASK.copy(tmp_path / "work")
    home = Home(tmp_path)
    sandbox = "required" if asking == "what the sandbox lets through" else "off"
    environ = {**home.variables, **environment(), "TERM": "xterm-256color", "REWINDOW_SANDBOX": sandbox}
    arguments = ["--model", scripted(tmp_path, *TASK.script()), "--mode", "auto" if asking == "nothing" else "ask"]
    with Terminal([*COMMAND, "run", *arguments], environ, str(project), lines=60, columns=170) as terminal:
        terminal.until("\n>")
        if asking == "acts":
            terminal.type("/option ask_about acts" + ENTER)
            terminal.until("ask_about acts")
        terminal.type(TASK.request + ENTER)
        for asked in range(1, sum(ASKED[asking].values()) + 1):
            terminal.until_it(lambda seen, asked=asked: seen.count("cancel the turn") == asked, "a question")
            terminal.type("y")
        told = terminal.until_it(lambda seen: unwrapped(TASK.summary) in unwrapped(seen), "the summary", SECONDS)
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
    for sentence in ("Run this statement?", "Write this file?", "Run this command in"):
        assert told.count(sentence) == ASKED[asking].get(sentence, 0)
    for shown in (
        "class FIFOCache(Cache):",
        " + class MRUCache(LRUCache):",
        "more lines: Ctrl-O or /open 2",  # of the tests that failed
        " -             key = next(reversed(self.__order))",
        "114 passed",
    ):
        assert shown in told
    assert [reply.text for reply in TASK.replies if unwrapped(reply.text).replace("`", "") not in unwrapped(told)] == []
    assert suite_passes(project)


def unwrapped(text: str) -> str:
    """The text on one line, because the terminal wraps prose."""
    return " ".join(text.split())


def test_load_shows_recorded_acts_and_repeats_none(tmp_path: Path) -> None:
    project, state = TASK.copy(tmp_path / "work"), tmp_path / "state"
    with Agent(state, "--model", scripted(tmp_path, *TASK.script()), env=environment()) as agent:
        session = agent.open(project)
        assert agent.prompt(session, TASK.request, seconds=SECONDS) == "end_turn"
        live = transcript(agent.updates())
    assert suite_passes(project)
    assert_recorded(logged(state, session), project)

    told = shown(state, session)
    for part in (
        TASK.request,
        " + class MRUCache(LRUCache):",
        "tests/test_mru.py (new file)  +24 -0",
        " -             key = next(reversed(self.__order))",
        "$ PYTHONPATH=src python -m pytest -q -x -p no:cacheprovider tests/test_mru.py  [exit code 1]",
        "has no attribute '_MRUCache__order'",
        TASK.summary,
    ):
        assert part in told
    (cycle,) = json.loads(shown(state, session, "--cycles", "--json"))["cycles"]
    groups = [[group["type"] for group in step.get("groups", [])] for step in cycle["steps"]]
    assert groups == [[], ["read-group"], ["write-group", "bash-group"], ["write-group", "bash-group"], []]

    # What the user has changed since would show that something was written again.
    (project / "tests/test_mru.py").write_text("# mine\n")
    left = {path: path.stat().st_mtime_ns for path in project.rglob("*")}
    with Agent(state, env=environment(), permission=None) as agent:
        agent.initialize()
        load(agent, session, project)
        again = transcript(agent.updates())
        order = [each for each in live["order"] if not each[1].startswith(NEWS)]
        messages = {each: text for each, text in live["messages"].items() if not each.startswith(NEWS)}
        assert (again["order"], again["messages"]) == (order, messages)
        assert again["calls"] == live["calls"]
        assert agent.prompt(session, "run", seconds=SECONDS) == "end_turn"
        assert "PYTHONPATH=src python" in agent.text()
        assert watched(agent.received).questions == []
    assert {path: path.stat().st_mtime_ns for path in project.rglob("*")} == left
    assert (project / "tests/test_mru.py").read_text() == "# mine\n"


def shown(state: Path, session: str, *options: str) -> str:
    """What `rewindow show` prints of it."""
    done = subprocess.run(
        [str(BIN / "rewindow"), "show", session, *options],
        env={**os.environ, "REWINDOW_STATE_DIR": str(state)},
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS,
    )
    return done.stdout


def assert_recorded(log: list[dict[str, Any]], project: Path) -> None:
    """Each act is on the log, and so is every file that was written, with its content before and after."""
    written = [event for event in log if event["kind"] == "file_written"]
    names = [str(Path(event["path"]).relative_to(project)) for event in written]
    assert len(names) == sum(name in ("edit", "write") for name in TOOLS)
    assert set(names) == {
        "CHANGELOG.rst",
        "src/cachetools/__init__.py",
        "src/cachetools/func.py",
        "tests/test_mru.py",
    }
    assert [event["before"] for event in written if event["path"].endswith("test_mru.py")] == [None]
    assert all(event["after"] for event in written)
    artifacts = [event["artifacts"] for event in log if event["kind"] == "execution_finished"]
    assert [len(each) for each in artifacts] == [0, 4, 1]
    ended = [event for event in log if event["kind"] == "command_ended"]
    assert [event["code"] for event in ended] == [1, 0]
