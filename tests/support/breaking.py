"""What tests of walls have in common: sessions, an export to tamper with, and everything that leaves of a session."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import subprocess
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import xxhash

from engine.log.store.schema import digest_of
from tests.support.agents import Agent
from tests.support.scripts import load, scripted
from tests.support.transcripts import asks_permission

Fields = dict[str, Any]
REWINDOW = Agent.command().parent / "rewindow"
SHOWN = ((), ("--events",), ("--cycles",))


def command(
    state: Path, *arguments: str, cwd: Path | None = None, environ: Mapping[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """`rewindow` as the user starts it."""
    return subprocess.run(
        [REWINDOW, *arguments],
        cwd=cwd,
        env={**os.environ, "REWINDOW_STATE_DIR": str(state), **(environ or {})},
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )


# --- sessions ---------------------------------------------------------------------------------------------------------


def auto(
    tmp_path: Path,
    cwd: Path,
    statements: Sequence[str],
    *,
    state: Path | None = None,
    mode: str = "auto",
    permission: str = "reject_once",
    environ: Mapping[str, str] | None = None,
    servers: Sequence[Fields] = (),
    directories: Sequence[str] = (),
    between: Callable[[int, Agent, str], None] = lambda _number, _agent, _session: None,
) -> tuple[Agent, str]:
    """A model's statements, one in a turn, whose user gives that answer; `between` follows each turn."""
    replies = [reply for each in statements for reply in ({"statement": each}, {"text": "Done."})]
    model = scripted(tmp_path, *replies)
    where = state or tmp_path / "state"
    with Agent(where, "--model", model, permission=permission, env=dict(environ or {})) as agent:
        agent.initialize()
        wanted = {"cwd": str(cwd), "mcpServers": list(servers), "additionalDirectories": list(directories)}
        session = agent.call("session/new", wanted)["sessionId"]
        agent.call("session/set_mode", {"sessionId": session, "modeId": mode})
        for number in range(len(statements)):
            agent.prompt(session, "Go.", seconds=60)
            between(number, agent, session)
    return agent, session


def loaded(state: Path, session: str, path: Path, *prompts: str) -> Agent:
    """A stored session that the user loads in a directory, and these prompts; what asks is refused."""
    with Agent(state, permission="reject_once") as agent:
        agent.initialize()
        load(agent, session, path)
        for each in prompts:
            agent.prompt(session, each, seconds=60)
    return agent


def questions(agent: Agent) -> list[Fields]:
    return [message["params"] for message in agent.received if asks_permission(message)]


def executions(agent: Agent) -> list[Fields]:
    """The ends of the statements."""
    notes = (update.get("_meta", {}).get("rewindow", {}) for update in agent.updates())
    return [note["execution"] for note in notes if "execution" in note]


# --- exports ----------------------------------------------------------------------------------------------------------


def own_export(tmp_path: Path, path: Path) -> list[Fields]:
    """The lines of the export of a session in which a user typed two statements."""
    state = tmp_path / "own"
    with Agent(state) as agent:
        session = agent.open(path)
        for each in ("x = 0", "x = 1"):
            agent.prompt(session, each)
    return [json.loads(line) for line in command(state, "export", session).stdout.splitlines()]


def renumbered(lines: Sequence[Fields]) -> bytes:
    """The file of a header, events and contents, in which the events are counted anew."""
    events = [line for line in lines[1:] if "kind" in line]
    for number, event in enumerate(events):
        event |= {"v": 1, "seq": number, "event_id": f"e{number}", "branch_id": "main", "at": event.get("at", 1.0)}
    lines[0]["events"] = len(events)
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


HOOK = ".git/hooks/pre-commit"


def export(cwd: str, events: Sequence[Fields], directories: Sequence[str] = ()) -> bytes:
    """The file of a session with these events, and contents between them, after a question and its answer."""
    lines = [
        {"kind": "session_opened", "cwd": cwd, "client": "", "python": "3.11.7"},
        {"kind": "user_message", "message_id": "m1", "text": "hello"},
        {"kind": "agent_text", "message_id": "m2", "text": "hi"},
        *events,
        {"kind": "run_stop", "reason": "completed", "cause": "end_turn"},
    ]
    count = 0
    for line in lines:
        if "kind" in line:
            line |= {"v": 1, "seq": count, "event_id": f"e{count}", "at": 1.0, "branch_id": "main"}
            count += 1
    header = {"format": "rewindow-session", "version": 1, "session_id": "ses_evil", "cwd": cwd}
    header |= {"directories": list(directories), "title": None, "created_at": 1.0, "updated_at": 1.0, "events": count}
    return "".join(json.dumps(line) + "\n" for line in (header, *lines)).encode()


def content(data: bytes) -> Fields:
    return {"blob": digest_of(data), "data": base64.b64encode(data).decode()}


def written(path: str, before: bytes) -> list[Fields]:
    """A file that held that, and is gone since: a rewind puts it back."""
    event: Fields = {"kind": "file_written", "execution_id": "ex", "tool_call_id": "call", "path": path}
    event |= {"before": digest_of(before), "before_digest": xxhash.xxh3_64_hexdigest(before), "before_mode": 0o755}
    return [content(before), event]


def rewound(path: str, before: bytes) -> list[Fields]:
    """The same as what a rewind has done."""
    file: Fields = {"path": path, "present": digest_of(before), "present_mode": 0o755}
    file["present_digest"] = xxhash.xxh3_64_hexdigest(before)
    return [content(before), {"kind": "rewound", "statement": 0, "restored": [file]}]


def commits(path: Path) -> None:
    """As the user does, whose hooks then run."""
    names = ("-c", "user.name=a", "-c", "user.email=a", "-c", "safe.directory=*")
    command = ["git", *names, "commit", "-q", "--allow-empty", "-m", "x"]
    subprocess.run(command, cwd=path, check=True, capture_output=True, timeout=30)


REPLACING = """
import builtins, os
shown = builtins.print
def print_(*values, **options):
    os.system('touch {marker}')
    return shown(*values, **options)
builtins.print = print_
"""


class Replacing:
    """Runs that code when it is loaded."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (self.code, {})


# --- what leaves ------------------------------------------------------------------------------------------------------


def strings(value: Any) -> Iterator[str]:
    """All strings of a JSON value, names too."""
    match value:
        case str():
            yield value
        case dict():
            for name, item in cast("dict[str, Any]", value).items():
                yield name
                yield from strings(item)
        case list():
            for item in cast("list[Any]", value):
                yield from strings(item)
        case _:
            pass


def leaving(agent: Agent, state: Path, session: str, environ: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """All that an editor gets, that is stored, and that the commands show."""
    found = {"messages": _joined(strings(agent.received)), "errors": bytes(agent.stderr)}
    for path in state.rglob("*"):
        name = path.relative_to(state)
        if path.is_file() and name.parts[0] != "scratch" and name.name != "mcp-token":
            found[f"file {name}"] = path.read_bytes()
    with closing(sqlite3.connect(f"file:{state / 'sessions.db'}?mode=ro", uri=True)) as database:
        found["contents"] = b"\n".join(map(_unpacked, database.execute("SELECT data FROM blobs")))
        found["events"] = _joined(
            strings([json.loads(text) for (text,) in database.execute("SELECT json FROM events")])
        )
    exported = [json.loads(line) for line in command(state, "export", session, environ=environ).stdout.splitlines()]
    found["export"] = _joined(strings(exported))
    found["exported contents"] = b"\n".join(base64.b64decode(line["data"]) for line in exported if "blob" in line)
    for options in SHOWN:
        done = command(state, "show", session, *options, environ=environ)
        found[f"show {' '.join(options)}"] = done.stdout + done.stderr
    assert exported, "or else nothing is looked at"
    return found


def places_of(needles: Iterable[bytes], found: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Where one of them can be read, with what is around it."""
    wanted = tuple(needles)
    return {
        place: [repr(data[max(0, data.find(each) - 60) : data.find(each) + len(each) + 20]) for each in present]
        for place, data in found.items()
        if (present := [each for each in wanted if each in data])
    }


def _joined(texts: Iterable[str]) -> bytes:
    return "\n".join(texts).encode("utf-8", "surrogatepass")


def _unpacked(row: tuple[bytes]) -> bytes:
    try:
        return zlib.decompress(row[0])
    except zlib.error:
        return row[0]


# --- keys -------------------------------------------------------------------------------------------------------------

KEY: Final = "sk-Zq7Xv2Lm9Rt4Wp8Ns3Bd6Hf1"
NAME: Final = "kZq7Xv2Lm9Rt4Wp8Ns3Bd6Hf1zz"


# --- files that git and editors run -----------------------------------------------------------------------------------


def git(path: Path, *arguments: str, **variables: str) -> None:
    """What the user does; it may fail."""
    names = ("-c", "user.name=a", "-c", "user.email=a", "-c", "safe.directory=*")
    environ = {**os.environ, "GIT_EDITOR": "true", **variables}
    subprocess.run(["git", *names, *arguments], cwd=path, env=environ, capture_output=True, timeout=30, check=False)


def work_tree(path: Path) -> None:
    git(path, "add", "src")
    git(path, "commit", "-qm", "1")
    git(path, "worktree", "add", "-q", str(path.parent / "tree"), "-b", "w1")


def rebase(path: Path) -> None:
    for text in "12":
        (path / "src/main.py").write_text(text)
        git(path, "add", "src")
        git(path, "commit", "-qm", text)
    git(path, "rebase", "-i", "HEAD~1", GIT_SEQUENCE_EDITOR="sed -i '1i break'")


def files(named: Mapping[str, str], config: str = "") -> Callable[[Path], None]:
    """Makes these files, which programs may run, and appends that to the configuration of the repository."""

    def make(path: Path) -> None:
        for name, text in named.items():
            file = path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)
        with (path / ".git/config").open("a") as appended:
            appended.write(config)

    return make


@dataclass(frozen=True)
class Run:
    """A file that a configuration names, what a statement appends to it, and what the user does afterwards."""

    before: Callable[[Path], None]
    file: str
    text: str = "touch {marker}"
    by_child: str = ""
    """The command of a program that it starts for that."""
    user: tuple[str, ...] = ("status",)
    where: str = "."


EVIL: Final = '[core]\n\tfsmonitor = "touch {marker}; false"\n'
APPENDS: Final = 'printf %s "$1" >> {file}'
LEADS: Final = """
mkdir src/evil && cp -r .git/objects .git/refs src/evil && printf %s "$1" > src/evil/config
echo "$PWD/src/evil" > {file}
"""
INCLUDING: Final = {"team.config": "[include]\n\tpath = second.config\n", "second.config": "[user]\n\tname = x\n"}
PROGRAM: Final = {"bin/show": "#!/bin/sh\ncat\n"}
RUN: Final = {
    "work tree": Run(work_tree, ".git/worktrees/tree/commondir", EVIL, LEADS, where="../tree"),
    "rebase": Run(
        rebase, ".git/rebase-merge/git-rebase-todo", "exec touch {marker}\n", APPENDS, ("rebase", "--continue")
    ),
    **{
        f"{name} below": Run(files({f"src/{name}": "{}\n"}), f"src/{name}", by_child=APPENDS)
        for name in (".envrc", ".vscode/tasks.json", ".mcp.json", ".claude/settings.json", ".idea/x.xml", "mise.toml")
    },
    "included by what is included": Run(files(INCLUDING), "second.config", EVIL),
    "included by what is included, by a child": Run(files(INCLUDING), "second.config", EVIL, APPENDS),
    "pager": Run(files(PROGRAM, "[pager]\n\tlog = bin/show\n"), "bin/show"),
    "filter of differences": Run(files(PROGRAM, "[interactive]\n\tdiffFilter = bin/show\n"), "bin/show"),
    "value over two lines": Run(files(PROGRAM, "[core]\n\tfsmonitor = \\\n bin/show\n"), "bin/show"),
    "script that is not there yet": Run(files({}, "[core]\n\tfsmonitor = sh mon.sh\n"), "mon.sh"),
    "hooks directory with a blank": Run(
        files({"a b/pre-commit": "#!/bin/sh\n"}, "[alias]\n\tc = !git -c 'core.hooksPath=a b' commit\n"),
        "a b/pre-commit",
        user=("c", "--allow-empty", "-m", "x"),
    ),
    "included over two lines": Run(
        files({"far.config": ""}, "[include]\n\tpath = \\\n../far.config\n"), "far.config", EVIL
    ),
}
"""By their names; what a child writes the kernel has to refuse, what Python writes has to be asked."""
