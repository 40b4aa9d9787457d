"""What other programs run by themselves in the mode `auto`: each write asks, or is refused if nobody can be asked."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.session.name_guard import AWAY, ENDED
from tests.support.agents import AGENT, Agent
from tests.support.llm_answers import chat
from tests.support.llm_server import llm_server
from tests.support.mcp_clients import process
from tests.support.planting import HELD, PLANTS, filled, is_planted, project, witness
from tests.support.scripts import asks_permission, runs, scripted

QUICK = ("open",)
NO_NAMESPACES = 'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all "$@"'
WITHOUT_MOUNTS = ("unshare", "--user", "--map-root-user", "sh", "-c", NO_NAMESPACES, "sh")
"""How a command is started that gets no file tree of its own."""
ALL = {**PLANTS, **HELD}
ADDED = {
    "link",
    "src/c",
    "src/e",
    "src/e/tasks.json",
    "src/evil",
    "later",
    "later/objects",
    "later/refs",
    "later/config",
    "later/HEAD",
    "later/H",
}
"""What an attack may leave beside the places: none of it is run by anything."""


def left(before: dict[str, str], path: Path) -> dict[str, tuple[str | None, str | None]]:
    """What has changed beside what an attack may leave."""
    after = witness(path)
    names = before.keys() | after.keys()
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "planted"


Tree = dict[str, str]


def attacked(
    tmp_path: Path,
    statement: str,
    permission: str,
    second: str = "1",
    between: Callable[[Path], None] = lambda _: None,
    started_by: Sequence[str] = (),
) -> tuple[Agent, Path, Tree]:
    """Two statements of a model in the mode `auto`, whose user gives that answer; and what there was before."""
    path = project(tmp_path / "project")
    replies = [{"statement": statement}, {"text": "Done."}, {"statement": second}, {"text": "Done."}]
    model = scripted(tmp_path, *replies)
    with Agent(tmp_path / "state", "--model", model, permission=permission, started_by=started_by) as agent:
        session = agent.open(path)
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        before = witness(path)
        assert agent.prompt(session, "Go.", seconds=60) == "end_turn"
        assert any(map(runs, agent.received))
        if second != "1":
            between(path)
            assert agent.prompt(session, "Go on.", seconds=60) == "end_turn"
    return agent, path, before


def check_rejected(tmp_path: Path, marker: Path, name: str, started_by: Sequence[str] = ()) -> None:
    agent, path, before = attacked(tmp_path, filled(ALL[name], marker), "reject_once", started_by=started_by)
    assert left(before, path).keys() <= ADDED, name
    assert not is_planted(path, marker), name
    asked = [message for message in agent.received if asks_permission(message)]
    assert bool(asked) == (name in PLANTS), name
    for question in asked:
        assert "outside the sandbox" in json.dumps(question), name
        assert {option["kind"] for option in question["params"]["options"]} == {"allow_once", "reject_once"}, name


@pytest.mark.parametrize("name", [each for each in ALL if each in QUICK])
def test_planting_asks_in_auto(tmp_path: Path, marker: Path, name: str) -> None:
    check_rejected(tmp_path, marker, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [each for each in ALL if each not in QUICK])
def test_planting_asks_in_auto_each_way(tmp_path: Path, marker: Path, name: str) -> None:
    check_rejected(tmp_path, marker, name)


@pytest.mark.slow
@pytest.mark.skipif(subprocess.run([*WITHOUT_MOUNTS, "true"], check=False).returncode != 0, reason="needs util-linux")
@pytest.mark.parametrize("name", PLANTS)
def test_planting_asks_without_mounts(tmp_path: Path, marker: Path, name: str) -> None:
    """The host asks whatever the kernel offers; what programs write then is open, as docs/sandbox.md says."""
    check_rejected(tmp_path, marker, name, WITHOUT_MOUNTS)


@pytest.mark.slow
@pytest.mark.anyio
async def test_planting_is_refused_where_nobody_can_be_asked(tmp_path: Path, marker: Path) -> None:
    for number, name in enumerate(ALL):
        path = project(tmp_path / str(number) / "project")
        before = witness(path)
        async with process(path, "--allow-run") as caller:
            said = await caller.error("run", code=filled(ALL[name], marker))
        if name in PLANTS:
            assert "Every mode asks about this, because" in said, (name, said)
        assert left(before, path).keys() <= ADDED, name
        assert not is_planted(path, marker), name


# --- what the user allowed --------------------------------------------------------------------------------------------


def tried(*commands: str) -> str:
    """A statement whose children and commands must all fail."""
    run = "subprocess.run(['sh', '-c', each]).returncode, bash(each).code"
    return f"import subprocess\nfor each in {commands}:\n    codes = {run}\n    assert all(codes), (each, codes)"


CHILD = tried("printf x >> .git/config", "echo x > .git/config")
ALLOWED = {
    "write": "write('.git/config', open('.git/config').read() + '[user]\\n\\tname = planted\\n')",
    "open": "with open('.git/config', 'a') as f: f.write('[user]\\n\\tname = planted\\n')",
    "command": "bash('git config user.name planted', outside=True)",
    "rename": "write('c', '[user]\\n\\tname = planted\\n')\nimport os; os.replace('c', '.git/config')",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALLOWED)
def test_allowed_write_stays_protected(tmp_path: Path, name: str) -> None:
    """The file that took the place of a protected one is as protected, in the same statement and in the next."""
    agent, path, _ = attacked(tmp_path, f"{ALLOWED[name]}\n{CHILD}", "allow_once", CHILD)
    assert statuses(agent) == ["ok", "ok"]
    assert (path / ".git/config").read_text().count("planted") == 1
    assert "x" not in (path / ".git/config").read_text().splitlines()[-1]
    assert len(list(filter(asks_permission, agent.received))) == 1


@pytest.mark.slow
def test_what_the_user_changes_meanwhile_is_protected(tmp_path: Path) -> None:
    """`git config` of a user replaces the file, and ends the mount on it; a directory of an editor comes to be."""

    def between(path: Path) -> None:
        subprocess.run(["git", "config", "user.name", "planted"], cwd=path, check=True)
        (path / ".idea").mkdir()
        (path / ".envrc").write_text("true\n")

    then = f"{CHILD}\n{tried('echo x >> .envrc', 'echo x > .idea/x', 'mv .idea old')}"
    agent, path, _ = attacked(tmp_path, "1 + 1", "reject_once", then, between)
    assert statuses(agent) == ["ok", "ok"]
    assert (path / ".envrc").read_text() == "true\n"
    assert not list((path / ".idea").iterdir())


def statuses(agent: Agent) -> list[str]:
    notes = (update.get("_meta", {}).get("rewindow", {}) for update in agent.updates())
    return [note["execution"]["status"] for note in notes if "execution" in note]


TAKEN = (".envrc", ".git/commondir", ".git/config.worktree", ".husky")
WAIT = "i=0; while [ -e {0} ] && [ $i -lt 1000 ]; do sleep 0.01; i=$((i+1)); done; test ! -e {0}"
MAKE = "; ".join((*(f"echo evil > {name}; {WAIT.format(name)} || exit 1" for name in TAKEN[:-1]), f"mkdir {TAKEN[-1]}"))
STAYS = ".git/rebase-merge"


@pytest.mark.slow
def test_what_a_program_makes_is_taken_away_and_shown(tmp_path: Path) -> None:
    """What is not there cannot be mounted. The editor shows it, though the statement has removed it again."""
    script = f"{MAKE}; touch .gdbinit; rm -f .gdbinit; mkdir {STAYS}; git init -q later"
    first = f"import subprocess; subprocess.run(['sh', '-c', {script!r}], check=True)"
    agent, path, _ = attacked(tmp_path, first, "reject_once", tried(f"echo x > {STAYS}/x"))
    assert statuses(agent) == ["ok", "ok"]
    shown = json.dumps(agent.updates())
    for name in (*TAKEN, ".gdbinit"):
        assert f"{path / name}" in shown, name
        assert not (path / name).exists(), name
    away = [each for folder in (path, path / ".git") for each in folder.glob(f"{AWAY}*")]
    assert len(away) >= len(TAKEN)
    assert all(str(each) in shown for each in away)
    assert (path / "later/.git/config").exists()


@pytest.mark.slow
def test_what_the_user_allows_to_be_made_stays(tmp_path: Path) -> None:
    first = "write('.envrc', 'x')\nbash('mkdir .idea', outside=True)\nimport os; os.mkdir('.claude')"
    agent, path, _ = attacked(tmp_path, first, "allow_once")
    assert [(path / name).exists() for name in (".envrc", ".idea", ".claude")] == [True] * 3
    assert AWAY not in json.dumps(agent.updates())


@pytest.mark.slow
def test_a_program_that_makes_a_name_again_and_again_is_ended(tmp_path: Path) -> None:
    script = "while true; do echo evil > .git/commondir; done"
    first = f"import subprocess; subprocess.run(['sh', '-c', {script!r}])"
    agent, path, _ = attacked(tmp_path, first, "reject_once")
    assert statuses(agent)[0] == "error"
    assert not (path / ".git/commondir").exists()
    assert ENDED in json.dumps(agent.updates())


@pytest.mark.slow
def test_what_a_statement_leaves_running_makes_nothing(tmp_path: Path) -> None:
    path = project(tmp_path / "project")
    make = f"echo evil > .git/commondir; {WAIT.format('.git/commondir')}"
    script = f"while [ ! -e go ]; do sleep 0.01; done; {make}; touch done"
    first = f"import subprocess; subprocess.Popen(['sh', '-c', {script!r}], start_new_session=True)"
    replies = [each for source in (first, "1") for each in ({"statement": source}, {"text": "Done."})]
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, *replies)) as agent:
        session = agent.open(path)
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        assert agent.prompt(session, "Go.", seconds=60) == "end_turn"
        (path / "go").touch()
        ends_at = time.monotonic() + 60
        while not (path / "done").exists():
            assert time.monotonic() < ends_at
            time.sleep(0.01)
        assert not (path / ".git/commondir").exists()
        assert agent.prompt(session, "Go on.", seconds=60) == "end_turn"
        assert str(path / ".git/commondir") in json.dumps(agent.updates())


@pytest.mark.slow
@pytest.mark.skipif(subprocess.run([*WITHOUT_MOUNTS, "true"], check=False).returncode != 0, reason="needs util-linux")
def test_without_mounts_programs_write_nothing_beside_a_repository(tmp_path: Path, marker: Path) -> None:
    writes = "import subprocess\nassert subprocess.run(['touch', 'file']).returncode"
    statement = f"{filled(HELD['shell'], marker)}\n{writes}"
    agent, path, before = attacked(tmp_path, statement, "reject_once", started_by=WITHOUT_MOUNTS)
    assert left(before, path) == {}
    assert json.dumps(agent.updates()).count("the layer mounts is missing") == 1


# --- what the user made -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_rewind_leaves_what_the_user_made_between_two_statements(tmp_path: Path) -> None:
    path = project(tmp_path / "project")
    (path / "mine.sh").write_text("echo mine\n")
    replies = [each for _ in range(2) for each in ({"statement": "1"}, {"text": "Done."})]
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, *replies)) as agent:
        session = agent.open(path)
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        assert agent.prompt(session, "Go.", seconds=60) == "end_turn"
        (path / ".envrc").write_text("mine\n")
        subprocess.run(["git", "-C", path, "config", "alias.t", "!./mine.sh"], check=True)
        assert agent.prompt(session, "Go on.", seconds=60) == "end_turn"
        assert "mine.sh" in json.dumps(agent.received)  # shown, because a program of the first could have made it
        subprocess.run(["git", "-C", path, "config", "--unset", "alias.t"], check=True)
        assert agent.prompt(session, "/rewind 1", seconds=60) == "end_turn"
    assert (path / "mine.sh").read_text() == "echo mine\n"
    assert (path / ".envrc").read_text() == "mine\n"
    assert "so it may be yours" in json.dumps(agent.received)


PLANTED = """#!/bin/sh
echo "$0" >> {marker}
"""


def test_libraries_in_the_agent_start_no_planted_program(tmp_path: Path, marker: Path) -> None:
    """OpenAI's library starts `uname`, and the import of `keyring` a compiler."""
    path = project(tmp_path / "project")
    programs = path / ".venv" / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name in ("uname", "gcc", "cc", "ld", "ldconfig", "sh"):
        (programs / name).write_text(PLANTED.format(marker=marker))
        (programs / name).chmod(0o755)
    home = tmp_path / "home"
    (home / ".config").mkdir(parents=True)
    there = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "PATH": f"{programs}:{os.environ['PATH']}"}
    with llm_server(chat("Done.")) as server:
        env = {**server.environment(), **there}
        with Agent(tmp_path / "state", "--model", "provider:openai:gpt-4o", env=env) as agent:
            session = agent.open(path)
            assert agent.prompt(session, "Go.", seconds=60) == "end_turn"
            assert agent.prompt(session, "/run import os; os.environ['PATH']", seconds=60) == "end_turn"
            assert str(programs) in json.dumps(agent.received)  # statements have the user's
    command = [str(AGENT.parent / "rewindow"), "auth", "list"]
    subprocess.run(command, env={**os.environ, **there}, check=True, capture_output=True, timeout=60)
    assert not marker.exists()
