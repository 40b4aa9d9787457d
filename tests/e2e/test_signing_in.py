"""Signing in to the agent as an editor starts it: from nothing, in a terminal, without a restart, and out again."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from acp_adapter.sign_in import IN_TERMINAL, SIGN_IN
from engine.core.key_file import FILE, StoredKeys, change_keys, key_path
from engine.runtime.system_keyring import NO_ANSWER
from engine.session.saved_state import LEAST_SECONDS
from tests.support.agents import AGENT, Agent
from tests.support.breaking import auto
from tests.support.commands import Home
from tests.support.keyrings import configure_keyring
from tests.support.llm_answers import anthropic
from tests.support.llm_server import Answer, LlmServer, llm_server
from tests.support.scripts import scripted
from tests.support.terminal import ENTER, Terminal

pytestmark = pytest.mark.slow

KEY = "sk-typed-into-a-terminal-0123456789"
SECONDS = 40.0
MODEL = "provider:anthropic:claude-test"
AUTH_REQUIRED = -32000


def variables(home: Path, server: LlmServer) -> dict[str, str]:
    """The environment of a user without any key."""
    none = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"), "")
    places = {"HOME": str(home), "XDG_CONFIG_HOME": "", "DBUS_SESSION_BUS_ADDRESS": ""}
    return {**none, **places, "ANTHROPIC_BASE_URL": server.url, "REWINDOW_MODEL": MODEL}


def refused(agent: Agent, session: str) -> str:
    response = agent.response(agent.begin_prompt(session, "hello"), SECONDS)
    assert response["error"]["code"] == AUTH_REQUIRED, response
    return response["error"]["message"]


def set_up(command: list[str], environ: dict[str, str], cwd: Path) -> None:
    """What an editor does with the command of a method, and what a person types then."""
    with Terminal(command, {**os.environ, **environ, "TERM": "xterm"}, str(cwd), columns=160) as terminal:
        terminal.until("Enter to finish", seconds=SECONDS)
        terminal.type(f"anthropic{ENTER}")
        terminal.until("Key of anthropic", seconds=SECONDS)
        terminal.type(f"{KEY}{ENTER}")
        terminal.until("Stored the key of anthropic", "did not answer as expected", seconds=SECONDS)
        terminal.type(ENTER)
        assert terminal.process.wait(SECONDS) == 0
        assert KEY.encode() not in bytes(terminal.raw)


@pytest.mark.parametrize("place", ["keyring", "file"])
@pytest.mark.parametrize("calls_authenticate", [True, False])
def test_from_nothing_to_an_answer_without_a_restart(
    tmp_path: Path, project: Path, place: str, calls_authenticate: bool
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    if place == "keyring":
        configure_keyring(home)
    with llm_server() as server:
        environ = variables(home, server)
        with Agent(tmp_path / "state", env=environ) as agent:
            terminal, stored = agent.initialize(auth={"terminal": True}, _meta={"terminal-auth": True})["authMethods"]
            assert (terminal["id"], stored["id"]) == (IN_TERMINAL, SIGN_IN)
            assert agent.error("authenticate", {"methodId": SIGN_IN})["code"] == AUTH_REQUIRED
            session = agent.new_session(project)
            assert "rewindow auth add anthropic" in refused(agent, session)
            shown = terminal["_meta"]["terminal-auth"]
            commands = {
                True: [str(AGENT), *terminal["args"]],
                False: [shown["command"], *shown["args"]],
            }
            set_up(commands[calls_authenticate], environ, project)
            if calls_authenticate:
                assert agent.call("authenticate", {"methodId": SIGN_IN}) == {}
            source = f"import os; print({KEY!r}); print('seen' * ('ANTHROPIC_API_KEY' in os.environ) or 'un' + 'seen')"
            call = json.dumps({"source": source})
            server.answers += [anthropic("Looking.", call), anthropic("Done.")]
            assert agent.prompt(session, "hello", seconds=SECONDS) == "end_turn"
            assert [asked.headers["Authorization"] for asked in server.asked] == [f"Bearer {KEY}"] * 2
            status = agent.call("auth/status", {})
            assert status["state"] == "authenticated"
            assert status["accounts"] == [{"label": f"anthropic, from the {place}", "active": True}]
            assert "unseen" in str(agent.received)
            server.answers.append(Answer(400, (json.dumps({"error": {"message": f"a bad {KEY}"}}).encode(),)))
            failed = agent.response(agent.begin_prompt(session, "again"), SECONDS)
            assert "a bad ***" in failed["error"]["message"]
            assert agent.call("logout", {}) == {}
            assert "needs credentials" in refused(agent, session)
            assert agent.error("authenticate", {"methodId": SIGN_IN})["code"] == AUTH_REQUIRED
    everything = str(agent.received) + agent.stderr.decode()
    assert KEY not in everything
    assert b"a bad ***" in agent.stderr
    assert "Traceback" not in agent.stderr.decode()
    for path in [*(tmp_path / "state").rglob("*"), *home.rglob("*")]:
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


def test_hanging_keyring_delays_only_calls_that_need_it(tmp_path: Path, project: Path) -> None:
    home = tmp_path / "home"
    configure_keyring(home, "Hanging")
    change_keys({"HOME": str(home)}, lambda _: StoredKeys({}, ("anthropic",)))
    with llm_server() as server, Agent(tmp_path / "state", env=variables(home, server)) as agent:
        started = time.monotonic()
        session = agent.open(project)
        assert agent.prompt(session, "/help") == "end_turn"
        assert time.monotonic() - started < 10
        assert NO_ANSWER in refused(agent, session)
        assert agent.call("auth/status", {}, SECONDS)["state"] == "unknown"


def test_sandboxed_statement_finds_no_file_of_keys(tmp_path: Path, project: Path) -> None:
    home = tmp_path / "home"
    path = key_path({"HOME": str(home)})
    source = (
        "import base64, pathlib\n"
        f"path = pathlib.Path({str(path)!r})\n"
        "print(path.exists() and [each ^ 7 for each in path.read_bytes()] or 'no' + 'thing')"
    )
    with (
        llm_server(anthropic("", json.dumps({"source": source})), anthropic("Done.")) as server,
        Agent(tmp_path / "state", env=variables(home, server)) as agent,
    ):
        session = agent.open(project)
        # Stored after the session's start, as a person does who signs in because a prompt has failed.
        change_keys({"HOME": str(home)}, lambda _: StoredKeys({"anthropic": KEY}))
        assert agent.prompt(session, "hello", seconds=SECONDS) == "end_turn"
        assert "nothing" in str(agent.received)


WAITS_FOR_THE_KEY = """
import subprocess, sys
program = '''
import time
while True:
    try:
        text = open({path!r}).read()
        if text:
            open("found", "w").write(text[::-1])
            break
    except OSError:
        pass
    time.sleep(0.01)
'''
subprocess.Popen([sys.executable, "-I", "-S", "-c", program])
"""


@pytest.mark.parametrize("there", ["nothing", "directory", "dangling link", "another directory"])
def test_program_of_a_statement_finds_no_key_that_the_user_stores_later(
    tmp_path: Path, project: Path, there: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "mine") if there == "another directory" else ""}
    path = key_path(environ)
    if there in ("directory", "dangling link"):
        path.parent.mkdir(parents=True)
    if there == "dangling link":
        path.symlink_to(home / "dotfiles/keys.json")

    def stores(number: int, _agent: Agent, _session: str) -> None:
        if number == 0:
            change_keys(environ, lambda _: StoredKeys({"anthropic": KEY}))
            time.sleep(0.5)  # in which a program that sees the file reads it

    auto(
        tmp_path, project, [WAITS_FOR_THE_KEY.format(path=os.path.realpath(path)), "1"], environ=environ, between=stores
    )
    assert KEY in path.read_text()
    assert path.parent.stat().st_mode & 0o077 == 0 or there in ("directory", "dangling link")
    assert not (project / "found").exists()


LOOKS_FOR_THE_KEY = """
import os
for folder, _, files in os.walk({home!r}):
    for each in files:
        text = open(os.path.join(folder, each)).read()
        if "typed-into-a" in text:
            open("found", "a").write(folder)
if {ends}:
    os._exit(1)
"""


def stores_again(home: Path, moves: Callable[[Path], object]) -> None:
    moves(key_path({"HOME": str(home)}).parent)
    change_keys({"HOME": str(home)}, lambda _: StoredKeys({"anthropic": KEY}))


def links(directory: Path) -> None:
    target = directory.parents[1] / "dotfiles"
    target.mkdir()
    (directory / FILE).rename(target / FILE)
    (directory / FILE).symlink_to(target / FILE)


MOVES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda directory: None,
    "removed": shutil.rmtree,
    "above moved": lambda directory: shutil.move(directory.parent, directory.parents[1] / "old"),
    "file is a link": links,
}


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("name", MOVES)
def test_keys_that_the_user_stores_in_a_new_directory_are_hidden(
    tmp_path: Path, project: Path, name: str, ends: bool
) -> None:
    """Also from what a checkpoint restores, whose mounts are older than the directory."""
    home = tmp_path / "home"
    change_keys({"HOME": str(home)}, lambda _: StoredKeys({"anthropic": KEY}))

    def between(number: int, _agent: Agent, _session: str) -> None:
        if number == 1:
            stores_again(home, MOVES[name])
        if number == 1 and name == "above moved":
            shutil.rmtree(home / "old")

    first, later = (LOOKS_FOR_THE_KEY.format(home=str(home), ends=each) for each in (ends, False))
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": ""}
    statements = [f"import time; time.sleep({LEAST_SECONDS}); x = 1", first, later, "open('value', 'w').write(str(x))"]
    auto(tmp_path, project, statements, environ=environ, between=between)
    assert KEY in key_path(environ).read_text()
    assert not (project / "found").exists()
    assert (project / "value").read_text() == "1"


@pytest.mark.parametrize("ends", [Agent.close, Agent.kill])
def test_agent_that_ends_waits_for_no_keyring(tmp_path: Path, project: Path, ends: Callable[[Agent], object]) -> None:
    home = tmp_path / "home"
    asked = configure_keyring(home, "Hanging").with_name("asked")
    with llm_server() as server:
        agent = Agent(tmp_path / "state", env=variables(home, server))
        agent.open(project)
        agent.begin("authenticate", {"methodId": SIGN_IN})
        assert within(SECONDS, asked.exists)
        own = psutil.Process(agent.process.pid)
        (asking,) = [each for each in own.children() if "system_keyring_child" in " ".join(each.cmdline())]
        started = time.monotonic()
        ends(agent)
        assert time.monotonic() - started < 10
        assert within(SECONDS, lambda: not asking.is_running() or asking.status() == psutil.STATUS_ZOMBIE)


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


SHOWS = "print('it is', open('backwards.txt').read()[::-1])"
WAITS = f"""
import os, time
print("is ready")
while not os.path.exists("go"):
    time.sleep(0.01)
{SHOWS}
"""


def store(home: Home, provider: str) -> None:
    """What the user does in a terminal."""
    done = home.run_as_process("auth", "add", provider, "--file", stdin=KEY.encode())
    assert "Stored the key" in done.stdout, done.stderr


@pytest.mark.parametrize("is_running", [False, True])
def test_agent_hides_a_key_from_the_moment_that_another_process_stores_it(
    tmp_path: Path, project: Path, is_running: bool
) -> None:
    home = Home(tmp_path / "home")
    (project / "backwards.txt").write_text(KEY[::-1])
    statements = [SHOWS, WAITS if is_running else SHOWS]
    model = scripted(tmp_path, *(reply for each in statements for reply in ({"statement": each}, {"text": "Done."})))
    with Agent(tmp_path / "state", "--model", model, env=dict(home.variables)) as agent:
        session = agent.open(project)
        agent.prompt(session, "Go.", seconds=SECONDS)
        assert f"it is {KEY}" in str(agent.received)
        before = len(agent.received)
        if is_running:
            asked = agent.begin_prompt(session, "Go.")
            agent.until(lambda message: "is ready" in str(message), SECONDS)
            store(home, "anthropic")
            (project / "go").touch()
            agent.response(asked, SECONDS)
        else:
            store(home, "anthropic")
            agent.prompt(session, "Go.", seconds=SECONDS)
        said = str(agent.received[before:])
    assert "it is ***" in said
    assert KEY not in said
