"""Ways through the walls that once led further than they may, through the real programs."""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from engine.core.key_file import StoredKeys, change_keys, read_keys
from engine.session.saved_state import LEAST_SECONDS
from engine.session.touches import DIRECTORY_APPEARED, MORE_APPEARED
from tests.support.agents import SECONDS, Agent
from tests.support.breaking import (
    HOOK,
    KEY,
    NAME,
    REPLACING,
    RUN,
    Fields,
    Replacing,
    auto,
    command,
    commits,
    executions,
    export,
    git,
    leaving,
    loaded,
    own_export,
    places_of,
    questions,
    renumbered,
    rewound,
    written,
)
from tests.support.mcp_clients import process
from tests.support.planting import project
from tests.support.scripts import Gate, scripted

pytestmark = pytest.mark.slow
TOKEN: Final = "token-of-this-program-9"
OUTSIDE: Final = "what-is-outside-of-it-9"


@pytest.fixture
def other() -> Iterator[int]:
    """A process of the user, with something in its environment."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={"PLAIN_WORD": OUTSIDE}) as cat:
        yield cat.pid


# --- exports that somebody made up ------------------------------------------------------------------------------------


def imported(state: Path, data: bytes) -> None:
    done = command(state, "import", "-", "--as", "ses_evil", stdin=data)
    assert done.returncode == 0, done.stderr


def tampered(tmp_path: Path, path: Path, events: Sequence[Fields], **header: Any) -> bytes:
    """The export of a session of this program, with these lines before its end."""
    lines = own_export(tmp_path, path)
    lines[0] |= header
    lines[1] |= header
    return renumbered([*lines[:-1], *events, lines[-1]])


HOOKS: Final = {
    "rewound": (True, HOOK, "editor"),
    "rewound, by the command": (True, HOOK, "command"),
    "rewound, absolute": (True, "{path}/" + HOOK, "editor"),
    "written, without a statement": (False, HOOK, "command"),
    "written, without a statement, absolute": (False, "{path}/" + HOOK, "editor"),
}
"""Whether a session of this program was tampered with, what the events name, and who rewinds."""


@pytest.mark.parametrize("name", HOOKS)
def test_a_rewind_of_a_tampered_session_plants_no_hook(tmp_path: Path, name: str) -> None:
    is_own, place, by = HOOKS[name]
    path, state, marker = project(tmp_path / "project"), tmp_path / "state", tmp_path / "planted"
    place, hook = place.format(path=path), f"#!/bin/sh\ntouch {marker}\n".encode()
    if is_own:
        kept, event = rewound(place, hook)
        imported(state, tampered(tmp_path, path, [kept, event | {"statement": 2}]))
    else:
        imported(state, export(str(path), written(place, hook)))
    target = "1" if is_own else "0"
    if by == "editor":
        loaded(state, "ses_evil", path, f"/rewind {target}")
    else:
        command(state, "rewind", "ses_evil", "--to", target, cwd=path)
    commits(path)
    assert not marker.exists()
    assert not (path / HOOK).exists()


DIRECTORIES: Final[dict[str, tuple[str, list[str]]]] = {
    "home": ("{path}", ["{home}"]),
    "everything": ("{path}", ["/"]),
    "home as the first": ("{home}", []),
}
WAYS: Final = ("rewind ses_evil --to 1 --json", "run ses_evil --mode auto --model {model} -p go")
WRITING: Final = """
import os, pathlib
for act in (
    lambda: write({file!r}, 'planted'), lambda: open({file!r}, 'w').write('planted'),
    lambda: pathlib.Path({file!r}).write_text('planted'), lambda: os.system('echo planted > ' + {file!r}),
):
    try: act()
    except Exception as error: print(error)
"""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", DIRECTORIES)
def test_an_import_decides_on_no_directory(tmp_path: Path, name: str, way: str) -> None:
    path, home, state = project(tmp_path / "project"), tmp_path / "home", tmp_path / "state"
    home.mkdir()
    file = str(home / ".bash_profile")
    cwd = DIRECTORIES[name][0].format(path=path, home=home)
    directories = [each.format(home=home) for each in DIRECTORIES[name][1]]
    events = written(file, b"echo planted\n")
    imported(state, tampered(tmp_path, path, events, cwd=cwd, directories=directories))
    model = scripted(tmp_path, {"statement": WRITING.format(file=file)}, {"text": "Done."})
    command(state, *way.format(model=model).split(), cwd=path, environ={"HOME": str(home)})
    assert list(home.iterdir()) == []


def touched(path: str) -> Fields:
    return {"kind": "file_touched", "execution_id": "", "path": path, "before": None, "before_digest": ""}


READ: Final = {
    "outside": "{outside}/shadow",
    "this program's state": "{state}/mcp-token",
    "another process": "/proc/{other}/environ",
    "by way of a link": "{path}/src/way/shadow",
    "by way of a process": "/proc/self/root{outside}/shadow",
}


@pytest.mark.parametrize("name", READ)
def test_a_load_reads_no_file_that_an_import_names(tmp_path: Path, other: int, name: str) -> None:
    path, outside, state = project(tmp_path / "project"), tmp_path / "outside", tmp_path / "state"
    for folder, text in ((outside / "shadow", OUTSIDE), (state / "mcp-token", TOKEN)):
        folder.parent.mkdir()
        folder.write_text(text)
    (path / "src/way").symlink_to(outside)
    lines = own_export(tmp_path, path)
    last = max(number for number, line in enumerate(lines) if line.get("kind") == "execution_started")
    event = touched(READ[name].format(path=path, outside=outside, state=state, other=other))
    event["execution_id"] = lines[last]["execution_id"]
    imported(state, renumbered([*lines[: last + 1], event]))
    found = leaving(loaded(state, "ses_evil", path), state, "ses_evil")
    assert places_of((OUTSIDE.encode(), TOKEN.encode()), found) == {}


@pytest.mark.parametrize("by", ["editor", "command"])
def test_imported_saved_values_load_only_in_the_sandbox(tmp_path: Path, by: str) -> None:
    path, state, marker = project(tmp_path / "project"), tmp_path / "state", tmp_path / "planted"
    major, minor = sys.version_info[:2]
    data = b"RWV\x01" + bytes((major, minor, 0)) + pickle.dumps({"x": Replacing(REPLACING.format(marker=marker))})
    group: Fields = {"names": ["x"], "content": None, "size": len(data), "withheld": ""}
    kept: Fields = {"kind": "values_kept", "execution_id": "e3", "unkept": {}}
    kept["groups"] = [group | {"data": base64.b64encode(data).decode()}]
    imported(state, export(str(path), [{"kind": "environment_restored", "executions": 0, "anew": ["x"]}, kept]))
    if by == "editor":
        loaded(state, "ses_evil", path, "print(1)", "print(2)")
    else:
        command(state, "run", "ses_evil", "-p", "print(1)", cwd=path)
    assert not marker.exists()


# --- links that take the place of directories -------------------------------------------------------------------------

DATABASE: Final = """
import os, sqlite3
os.makedirs('src/d', exist_ok=True)
c = sqlite3.connect('src/d/{name}'); c.execute('create table t(a)'); c.commit()
"""
AT_ONCE: Final = DATABASE + "c.close(); os.rename('src/d', 'src/e'); os.symlink({where!r}, 'src/d')"
LEFT_OPEN: Final = (
    DATABASE
    + """
c.execute('insert into t values (1)')
import subprocess
p = subprocess.Popen(['sh', '-c', 'cat {gate}; mv src/d src/e; ln -s {where} src/d'], stdout=subprocess.DEVNULL)
"""
)
MAKES_ROOM: Final = """
import os
if 'p' in globals(): p.wait(); c.rollback(); c.close()
if os.path.islink('src/d'): os.remove('src/d'); os.makedirs('src/d')
os.system('printf X > src/d/{name}')
"""
LOOTS: Final = """
import os
[open(os.path.join(at, each), 'rb').read() for at, _, files in os.walk('src/d') for each in files]
"""
SWAPS: Final = {
    "a file that was written, and this program's state": (AT_ONCE, "{state}", "mcp-token"),
    "a file left open, and this program's state": (LEFT_OPEN, "{state}", "mcp-token"),
    "a file left open, and another process": (LEFT_OPEN, "/proc/{other}", "environ"),
    "a file that was written, and another process": (AT_ONCE, "/proc/{other}", "environ"),
}


@pytest.mark.parametrize("name", SWAPS)
def test_host_follows_no_link_above_a_statement_file(tmp_path: Path, other: int, name: str) -> None:
    first, where, file = SWAPS[name]
    path, state = project(tmp_path / "project"), tmp_path / "state"
    state.mkdir()
    (state / "mcp-token").write_text(TOKEN)
    gate = Gate(tmp_path / "gate")
    statement = first.format(name=file, where=where.format(state=state, other=other), gate=tmp_path / "gate")

    def between(number: int, agent: Agent, session: str) -> None:
        if number == 0 and first is LEFT_OPEN:
            gate.pass_one()
            deadline = time.monotonic() + SECONDS
            while not (path / "src/d").is_symlink():
                assert time.monotonic() < deadline
                time.sleep(0.01)
        if number == 1:
            agent.prompt(session, "/rewind 1", seconds=60)

    agent, session = auto(tmp_path, path, [statement, MAKES_ROOM.format(name=file), LOOTS], between=between)
    assert questions(agent) == []
    assert places_of([TOKEN.encode(), OUTSIDE.encode()], leaving(agent, state, session)) == {}


# --- a home directory that holds this program's state -----------------------------------------------------------------

TRIES: Final = {
    "read": "read(S + '/mcp-token')",
    "relative": "read('.local/state/rewindow/mcp-token')",
    "view": "show(view(S + '/mcp-token'))",
    "group": "show(group('g', '.local/state/rewindow/*token*'))",
    "grep": "print(grep('token', S), grep('token-of', '.'))",
    "find": "print(find('*', S), find('**/mcp-*'))",
    "ls": "print(ls(S), ls('.local/state/rewindow'))",
    "copy": "import shutil; shutil.copy(S + '/mcp-token', 'copied')\nprint(read('copied'))",
    "link": "os.symlink(S, 'way'); print(read('way/mcp-token'))",
    "further name": "os.link(S + '/mcp-token', 'token'); print(read('token'))",
    "command": "print(bash('cat .local/state/rewindow/mcp-token; ls -la .local/state/rewindow'))",
    "write": "write(S + '/mcp-token', 'planted')",
    "edit": "edit(S + '/mcp-token', 'token', 'planted')",
    "open": "with open(S + '/mcp-token', 'w') as f: f.write('planted')",
    "through a link": "os.symlink(S, 'other'); write('other/mcp-token', 'planted')",
    "the store": "with open(S + '/sessions.db', 'wb') as f: f.write(b'planted')",
    "a new file": "write(S + '/config.toml', 'planted')",
    "rename over": "write('planted', 'planted')\nos.replace('planted', S + '/mcp-token')",
    "rename": "os.rename('.local', 'gone')",
    "rename below": "os.rename('.local/state', '.local/gone')",
    "move": "import shutil; shutil.move('.local', 'gone')",
    "remove": "os.remove(S + '/mcp-token')",
    "remove all": "import shutil; shutil.rmtree('.local')",
    "remove all, blindly": "import shutil; shutil.rmtree('.local', ignore_errors=True)",
    "by a command": "assert bash('mv .local gone || rm -r .local || echo planted > .local/state/rewindow/token').code",
}


STORED: Final = "sk-ant-Zq7Xv2Lm9Rt4Wp8Ns3Bd6Hf1"


def home_of(tmp_path: Path) -> tuple[Path, Path]:
    """A home directory, and in it the state directory."""
    home = tmp_path / "home"
    state = home / ".local/state/rewindow"
    state.mkdir(parents=True, mode=0o700)
    (state / "mcp-token").write_text(TOKEN)
    return home, state


def check_state(state: Path) -> None:
    assert (state / "mcp-token").read_text() == TOKEN
    assert (state / "sessions.db").read_bytes().startswith(b"SQLite format 3")
    assert not (state / "config.toml").exists()


@pytest.mark.parametrize("mode", ["auto", "ask", "plan"])
def test_statements_cannot_access_the_state_in_a_home_directory(tmp_path: Path, mode: str) -> None:
    home, state = home_of(tmp_path)
    statements = [f"import os; S = {str(state)!r}\n{each}" for each in TRIES.values()]
    agent, session = auto(tmp_path, home, statements, state=state, mode=mode, environ={"HOME": str(home)})
    check_state(state)
    said = {"messages": json.dumps(agent.received).encode(), "copied": b""}
    for file in home.glob("*"):
        if file.is_file():
            said[file.name] = file.read_bytes()
    assert places_of([TOKEN.encode()], said) == {}
    assert len(executions(agent)) == len(TRIES)
    assert session in command(state, "sessions", "--json").stdout.decode()


OF_KEYS: Final = (
    "read(K)",
    "grep('sk-', '.config')",
    "grep('sk-', '.')",
    "view(K).text",
    "open(K).read()",
    "os.symlink(K, 'way') or read('way')",
    "os.symlink('.config', 'ways') or read('ways/rewindow/keys.json')",
    "bash('cat ' + K).output",
)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "plan"])
@pytest.mark.parametrize("configuration", [".config", "cfg"])
def test_statements_cannot_read_keys_in_a_home_directory(tmp_path: Path, mode: str, configuration: str) -> None:
    home = tmp_path / "home"
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": "" if configuration == ".config" else str(home / configuration)}
    keys = home / configuration / "rewindow/keys.json"
    change_keys(environ, lambda _: StoredKeys({"anthropic": STORED}))
    # Backwards, because the key itself would be redacted.
    statements = [f"import os; K = {str(keys)!r}\nprint(str({each})[::-1])" for each in OF_KEYS]
    agent, session = auto(tmp_path, home, statements, mode=mode, environ=environ)
    assert len(executions(agent)) == len(OF_KEYS)
    assert places_of([STORED[::-1].encode()], {"messages": json.dumps(agent.received).encode()}) == {}
    assert read_keys(environ).keys == {"anthropic": STORED}, session


OF_HOME: Final = {
    ".config/rewindow/config.toml": "write('.config/rewindow/config.toml', 'sandbox = \"off\"')",
    ".config/rewindow": "import shutil; os.mkdir('m'); write('m/a', '1'); shutil.move('m', '.config/rewindow')",
    ".bashrc": "with open('.bashrc', 'a') as f: f.write('planted')",
    ".profile": "import pathlib; pathlib.Path('.profile').write_text('planted')",
    ".ssh/config": "os.makedirs('.ssh', exist_ok=True)\nwith open('.ssh/config', 'w') as f: f.write('planted')",
    ".ssh/authorized_keys": "write('.ssh/authorized_keys', 'planted')",
    ".gitconfig": "write('.gitconfig', 'planted')",
    ".config/git/config": "write('.config/git/config', 'planted')",
    ".config/autostart/a.desktop": "write('.config/autostart/a.desktop', 'planted')",
    ".local/bin/git": "write('.local/bin/git', 'planted')",
    ".local/lib/python3.11/site-packages/a.pth": (
        "p = '.local/lib/python3.11/site-packages'; os.makedirs(p, exist_ok=True)\n"
        "with open(f'{p}/a.pth', 'w') as f: f.write('planted')"
    ),
}


def test_what_a_home_directory_runs_asks_in_auto(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config").mkdir(parents=True)
    (home / ".bashrc").write_text("")
    statements = [f"import os\n{each}" for each in OF_HOME.values()]
    asked: list[int] = []

    def between(_number: int, agent: Agent, _session: str) -> None:
        asked.append(len(questions(agent)))

    auto(tmp_path, home, statements, environ={"HOME": str(home)}, between=between)
    assert (home / ".bashrc").read_text() == ""
    settings = home / ".config/rewindow"
    assert list(settings.iterdir()) == [], "made so that it can be held, and empty"
    assert not [name for name in OF_HOME if name != ".bashrc" and home / name != settings and (home / name).exists()]
    assert [after > before for before, after in zip([0, *asked], asked, strict=False)] == [
        not name.startswith(".config/rewindow")
        for name in OF_HOME  # which cannot be allowed either
    ]


@pytest.mark.anyio
async def test_clients_get_at_no_state_in_a_home_directory(tmp_path: Path) -> None:
    home, state = home_of(tmp_path)
    way = ".local/state/rewindow"
    (home / "link").symlink_to(way)
    async with process(home, "--allow-run", environ={"REWINDOW_STATE_DIR": str(state)}) as caller:
        calls: list[tuple[str, Fields]] = [
            *(("view", {"path": each}) for each in (str(state / "mcp-token"), f"{way}/mcp-token", "link/mcp-token")),
            *(
                ("group", {"name": f"g{n}", "add": [each]})
                for n, each in enumerate((f"{way}/mcp*", "**/mcp*", "link/*"))
            ),
            *(("run", {"code": f"import os; S = {str(state)!r}\n{each}"}) for each in TRIES.values()),
        ]
        assert "42" in await caller.text("run", code="6 * 7")
        for tool, arguments in calls:
            assert TOKEN not in str(await caller.client.call_tool(tool, arguments)), arguments
    check_state(state)


# --- keys -------------------------------------------------------------------------------------------------------------


ECHOING: Final = """
import json, os, sys
key = os.environ["API_KEY"]
print("begins with", key, sys.argv, file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    answer = {"error": {"code": -32603, "message": "no " + key, "data": {key: {key: sys.argv}}}}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        capabilities = {"agentCapabilities": {"_meta": {key: key}}, "agentInfo": {"name": key, "version": key}}
        answer = {"result": {"protocolVersion": version, "capabilities": {}, key: key, **capabilities}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
    print(json.dumps({"jsonrpc": "2.0", "method": key, "params": {key: key}}), "trash " + key, sep="\\n", flush=True)
"""


@pytest.mark.parametrize("suite", ["acp", "mcp"])
def test_program_report_masks_the_key_that_it_prints(tmp_path: Path, suite: str) -> None:
    kinds = {"json": "r.json", "junit": "r.xml", "html": "r.html", "markdown": "r.md"}
    limits = ("--timeout", "2", "--scenario-timeout", "4", "--budget", "30", "-k", "INIT", "--verbose")
    files = [f"--{kind}={tmp_path / 'reports' / name}" for kind, name in kinds.items()]
    (tmp_path / "reports").mkdir()
    given = ["--env", f"API_KEY={KEY}", *files, "--", sys.executable, "-c", ECHOING, "--api-key", NAME]
    program = Path(sys.executable).parent / "rewindow-conformance"
    done = subprocess.run([program, suite, *limits, *given], cwd=tmp_path, capture_output=True, timeout=90, check=False)
    found = {"stdout": done.stdout, "stderr": done.stderr}
    found |= {each.name: each.read_bytes() for each in (tmp_path / "reports").rglob("*") if each.is_file()}
    assert len(found) == 6
    assert places_of((KEY.encode(), NAME.encode()), found) == {}
    assert b"***" in done.stdout


# --- files that git and editors run -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RUN)
def test_a_file_that_is_run_later_is_held(tmp_path: Path, name: str) -> None:
    run = RUN[name]
    path, marker = project(tmp_path / "project"), tmp_path / "planted"
    run.before(path)
    file = path / run.file
    before = file.read_bytes() if file.exists() else None
    text = run.text.format(marker=marker)
    if run.by_child:
        statement = (
            f"import subprocess\nsubprocess.run(['sh', '-c', {run.by_child.format(file=run.file)!r}, 'sh', {text!r}])"
        )
    else:
        statement = f"with open({run.file!r}, 'a') as f: f.write({text!r})"
    agent, _ = auto(tmp_path, path, [statement])
    assert (file.read_bytes() if file.exists() else None) == before
    assert len(executions(agent)) == 1
    assert bool(questions(agent)) != bool(run.by_child)
    git(path / run.where, *run.user)
    assert not marker.exists()


def makes_by_a_program(script: str, then: str = "") -> str:
    return f"import sqlite3, subprocess\nsubprocess.run(['sh', '-c', {script!r}], check=True)\n{then}"


def shown_in(agent: Agent) -> str:
    """What the editor shows of the calls of statements."""
    calls = [each for each in agent.updates() if each["sessionUpdate"].startswith("tool_call")]
    return "\n".join(json.dumps([each.get("title"), each.get("content")]) for each in calls)


@pytest.mark.parametrize(
    ("made", "touched", "names"),
    [
        ("echo x > .envrc", "sqlite3.connect('.envrc').close()", ["Write .envrc", "Rewindow renamed it to"]),
        ("ln -s src .githooks", "", ["Write .githooks", "Rewindow renamed it to"]),
        ("mkdir .cursor", "", ["Write .cursor", DIRECTORY_APPEARED]),
        (
            "for d in .aws .azure .claude .codex .cursor .gemini; do mkdir $d; touch $(seq -f $d/%g 30); done\n"
            "echo x > .envrc; mkdir .zed; touch .zed/tasks.json",
            "",
            ["Write .envrc", ".zed/tasks.json", "Write .claude", MORE_APPEARED],
        ),
    ],
)
def test_what_a_program_makes_for_others_to_run_is_shown(
    tmp_path: Path, made: str, touched: str, names: Sequence[str]
) -> None:
    path = project(tmp_path / "project")
    agent, _ = auto(tmp_path, path, [makes_by_a_program(made, touched)])
    shown = shown_in(agent)
    assert [name for name in names if json.dumps(name)[1:-1] not in shown] == []


@pytest.mark.parametrize("is_later", [False, True])
def test_always_covers_no_repository_that_a_program_made_since(tmp_path: Path, is_later: bool) -> None:
    path, marker = tmp_path / "project", tmp_path / "planted"
    path.mkdir()
    script = f"git init -q .; git config core.fsmonitor 'touch {marker}; false'"
    asks = "bash('git status', outside=True)"
    later = [makes_by_a_program(script), asks] if is_later else [makes_by_a_program(script, asks)]

    def between(_number: int, agent: Agent, _session: str) -> None:
        agent.permission = "reject_once"

    agent, _ = auto(tmp_path, path, [asks, asks, *later], permission="allow_always", between=between)
    assert len(questions(agent)) == 2
    assert not marker.exists()


# --- code of a project's environment ----------------------------------------------------------------------------------

PLANTS_IT: Final = """
import os, subprocess, sys
version = '%d.%d' % sys.version_info[:2]
site = '.venv/lib/python' + version + '/site-packages'
os.makedirs(site)
for name, text in {{
    '.venv/pyvenv.cfg': 'home = /usr/bin\\nversion = ' + version + '.0\\n',
    site + '/x.pth': 'import os; os.system("touch {marker}")\\n',
    site + '/y.pth': 'import\\tos; os.system("touch {marker}")\\n',
    site + '/sitecustomize.py': 'import os; os.system("touch {marker}")\\n',
    site + '/usercustomize.py': 'import os; os.system("touch {marker}")\\n',
}}.items():
    subprocess.run(['cp', '/dev/stdin', name], input=text, text=True, check=True)
"""


@pytest.mark.anyio
@pytest.mark.parametrize("way", ["view", "run", "editor"])
async def test_an_environment_that_a_statement_left_runs_nothing(tmp_path: Path, way: str) -> None:
    path, state, marker = project(tmp_path / "project"), tmp_path / "state", tmp_path / "planted"
    agent, _ = auto(tmp_path, path, [PLANTS_IT.format(marker=marker)])
    assert [each["status"] for each in executions(agent)] == ["ok"]
    assert list(path.glob(".venv/lib/*/*/x.pth"))
    if way == "view":
        async with process(path) as caller:
            assert "x = 1" in await caller.text("view", path="src/main.py")
    elif way == "run":
        assert b"2" in command(state, "run", "-p", "1+1", cwd=path).stdout
    else:
        with Agent(state) as editor:
            session = editor.open(path)
            editor.prompt(session, "1 + 1")
            assert executions(editor)[-1]["value"] == "2"
    assert not marker.exists()


# --- what is protected since a worker began ---------------------------------------------------------------------------

WRITES_ENVRC: Final = """
import ctypes, os, subprocess
if os.path.exists('.envrc'):
    file = ctypes.CDLL(None).open(b'.envrc', os.O_WRONLY | os.O_APPEND)
    ctypes.CDLL(None).write(file, b'planted', 7)
    subprocess.run('echo planted >> .envrc', shell=True)
"""
DIES: Final = "import os\nos.kill(os.getpid(), 9)"
FRESH: Final = {
    "died": (DIES, ""),
    "rewound": ("1", "/rewind 1"),
    "replayed": ("1", "/replay 1"),
    "died afterwards": ("import subprocess, os\nsubprocess.Popen(['sh', '-c', f'sleep 1; kill -9 {os.getpid()}'])", ""),
}
"""What ends the first worker: a statement, and what the user types."""


@pytest.mark.parametrize("name", FRESH)
def test_a_new_worker_begins_with_what_is_protected_now(tmp_path: Path, name: str) -> None:
    path = project(tmp_path / "project")
    statement, typed = FRESH[name]

    def between(number: int, agent: Agent, session: str) -> None:
        if number == 0:
            (path / ".envrc").write_text("mine\n")
        if number == 2 and typed:
            agent.prompt(session, typed, seconds=SECONDS)
        if number == 2 and "sleep" in statement:
            time.sleep(2)

    auto(tmp_path, path, [WRITES_ENVRC, "1", statement, WRITES_ENVRC], between=between)
    assert (path / ".envrc").read_text() == "mine\n"


OPENS_BEFORE: Final = """
import ctypes, os
os.makedirs('sub/deep', exist_ok=True)
library = ctypes.CDLL(None)
before = [os.open(each, os.O_PATH | os.O_DIRECTORY) for each in ('sub', 'sub/deep')]
"""
WRITES_BELOW: Final = """
before += [os.open(each, os.O_PATH | os.O_DIRECTORY) for each in ('sub', 'sub/deep')]
for each in before:
    for name in (b'.envrc', b'deep/.envrc', b'.vscode/tasks.json'):
        file = library.openat(each, name, os.O_WRONLY | os.O_APPEND)
        library.write(file, b'planted', 7)
"""


@pytest.mark.parametrize("is_nested", [False, True])
def test_directories_opened_before_lead_around_no_protection(tmp_path: Path, is_nested: bool) -> None:
    path = project(tmp_path / "project")
    mine = [path / each for each in ("sub/.envrc", "sub/deep/.envrc", "sub/.vscode/tasks.json")]

    def between(number: int, _agent: Agent, _session: str) -> None:
        if number < len(mine):
            mine[number].parent.mkdir(exist_ok=True)
            mine[number].write_text("mine\n")

    moves = "os.system('mv sub old')"
    more = (str(path),) if is_nested else ()
    cwd = path / "sub" if is_nested else path
    cwd.mkdir(exist_ok=True)
    enters = f"import os\nos.chdir({str(path)!r})\n"
    statements = [enters + OPENS_BEFORE, WRITES_BELOW, WRITES_BELOW, WRITES_BELOW, moves]
    auto(tmp_path, cwd, statements, between=between, directories=more)
    assert [each.read_text() for each in mine] == ["mine\n"] * 3


APPENDS: Final = """
import subprocess
subprocess.run(["sh", "-c", "for each in {}; do echo planted >> $each; done"])
"""


def makes(name: str) -> Callable[[Path], object]:
    """What the user does: a repository, or a file and the directories above it."""

    def act(path: Path) -> None:
        if not name.endswith("/"):
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text("mine\n")
        else:
            subprocess.run(["git", "init", "-q", str(path / name)], check=True)

    return act


def moves(source: str, target: str) -> Callable[[Path], object]:
    return lambda path: (path / source).rename(path / target)


def exchanges(path: Path) -> None:
    moves("work/app/lib", "lib")(path)
    moves("work/app", "old")(path)
    moves("lib", "work/app")(path)


MOVED: Final[dict[str, tuple[Sequence[Callable[[Path], object]], Sequence[str]]]] = {
    "inner repository": (
        [makes("work/app/"), makes("work/app/lib/"), moves("work/app/lib", "work/lib")],
        ["work/lib/.git/config"],
    ),
    "one of two": (
        [makes("work/app/x/"), makes("work/app/y/"), moves("work/app/y", "work/y")],
        ["work/y/.git/config"],
    ),
    "into another": ([makes("x/"), makes("y/"), moves("x", "y/x")], ["y/x/.git/config"]),
    "file": (
        [makes("app1/"), makes("app2/"), makes("app1/.envrc"), moves("app1/.envrc", "app2/.envrc")],
        ["app2/.envrc"],
    ),
    "directory of a file": (
        [makes("a/b/.envrc"), makes("a/b/c/.envrc"), moves("a/b/c", "a/moved")],
        ["a/moved/.envrc", "a/b/.envrc"],
    ),
    "exchange": ([makes("work/app/"), makes("work/app/lib/"), exchanges], ["work/app/.git/config"]),
}
"""What the user does after each statement, and the protected files that are there in the end."""


@pytest.mark.slow
@pytest.mark.parametrize("name", MOVED)
def test_what_the_user_moves_stays_protected(tmp_path: Path, name: str) -> None:
    path = project(tmp_path / "project")
    acts, held = MOVED[name]

    def between(number: int, _agent: Agent, _session: str) -> None:
        if number < len(acts):
            acts[number](path)

    auto(tmp_path, path, [*map(str, range(len(acts))), APPENDS.format(" ".join(held))], between=between)
    assert all((path / each).stat().st_size for each in held)
    assert not [each for each in held if "planted" in (path / each).read_text()]


WORKS_IN_THE_MOVED: Final = """
import os
for name in ("app/lib", "moved/lib"):
    if os.path.isdir(name):
        before.append(os.open(name, os.O_PATH | os.O_DIRECTORY))
for each in before:
    file = library.openat(each, b".envrc", os.O_WRONLY | os.O_APPEND)
    library.write(file, b"planted", 7)
"""


@pytest.mark.slow
def test_who_opened_a_directory_before_it_moved_writes_no_file_made_there_later(tmp_path: Path) -> None:
    path = project(tmp_path / "project")
    acts = [makes("app/lib/"), makes("moved/"), moves("app/lib", "moved/lib"), makes("moved/lib/.envrc")]

    def between(number: int, _agent: Agent, _session: str) -> None:
        if number < len(acts):
            acts[number](path)

    begins = "import ctypes\nlibrary, before = ctypes.CDLL(None), []"
    auto(tmp_path, path, [begins, *[WORKS_IN_THE_MOVED] * len(acts)], between=between)
    assert (path / "moved/lib/.envrc").read_text() == "mine\n"


OPENED: Final = """
import ctypes, os
library = ctypes.CDLL(None)
opened = [os.open(each, os.O_RDONLY | os.O_DIRECTORY) for each in ('a', 'a/b')]
"""
WRITES_IN_THE_OPENED: Final = """
import os
for each in opened:
    for name in (b'.npmrc', b'.envrc', b'moved/.npmrc', b'moved/.envrc'):
        file = library.openat(each, name, os.O_WRONLY | os.O_APPEND)
        library.write(file, b'planted', 7)
"""


@pytest.mark.slow
@pytest.mark.parametrize("target", ["moved", "a/moved"])
def test_who_opened_a_directory_that_was_held_from_the_start_writes_no_protected_file_in_it(
    tmp_path: Path, target: str
) -> None:
    path = project(tmp_path / "project")
    makes("a/b/.envrc")(path)

    def replaces(path: Path) -> None:
        makes("new")(path)
        (path / "new").rename(path / target / ".envrc")

    acts = [lambda _: None, moves("a/b", target), makes(f"{target}/.npmrc"), replaces]

    def between(number: int, _agent: Agent, _session: str) -> None:
        if number < len(acts):
            acts[number](path)

    auto(tmp_path, path, [OPENED, *[WRITES_IN_THE_OPENED] * len(acts)], between=between)
    assert [(path / target / name).read_text() for name in (".npmrc", ".envrc")] == ["mine\n"] * 2


PRETENDS: Final = """
import gc, sys
for each in gc.get_objects():
    if type(each).__module__.endswith('worker.forking.child') and '_layers' in getattr(each, '__dict__', ()):
        each._layers = ()
for name, module in [*sys.modules.items()]:
    if name.endswith('worker.forking.child') and hasattr(module, 'Started'):
        module.Started = lambda *_, made=module.Started: made(())
"""


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["1", PRETENDS], ids=["honest", "pretending"])
def test_what_the_user_makes_is_held_for_a_worker_from_a_checkpoint(tmp_path: Path, statement: str) -> None:
    path = project(tmp_path / "project")

    def between(number: int, agent: Agent, session: str) -> None:
        if number == 1:
            agent.prompt(session, "/rewind 1", seconds=60)
        if number == 2:
            makes(".envrc")(path)
            makes("inner/")(path)

    writes = APPENDS.format(".envrc inner/.git/config")
    agent, _ = auto(
        tmp_path,
        path,
        [f"import time; time.sleep({LEAST_SECONDS})\n{statement}", "2", "3", writes],
        between=between,
    )
    assert len(executions(agent)) == 4
    assert (path / ".envrc").read_text() == "mine\n"
    assert "planted" not in (path / "inner/.git/config").read_text()
