"""Every way in for a key, times every way out of the process: none of them shows it.

A key for each way in is a secret of the agent's environment. One person works with each product in turn, and meets
every key: in a file, in output, in an exception and so on. What leaves the product is collected by the way that it
leaves. `WAYS_IN` and `WAYS_OUT` are the table, and each cell is a test. The slow tests run the same with keys that are
no secrets, and find them in the cells of `REACHED`: so a cell that shows nothing is one that could have shown it.

The last test compares what the person has used with the tables of methods, tools, prompts, resources and commands: one
that is new there has to be used here.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import queue
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import anyio
import psutil
import pytest
from mcp_types import LOG_LEVEL_META_KEY
from mcp_types.methods import SPEC_CLIENT_METHODS

from acp_adapter.methods import METHODS
from engine.cli.commands import SUBCOMMANDS
from engine.core.key_file import StoredKeys, change_keys, read_keys
from engine.log.redaction import NO_SECRETS
from mcp_tools.notifications import LogMessages
from mcp_tools.prompts import COMPLETED, PROMPTS
from mcp_tools.requests import RequestHandlers
from mcp_tools.resources import TEMPLATES, TIMELINE_URI
from mcp_tools.server import make_server
from mcp_tools.tasks import Tasks
from mcp_tools.tools import PYTHON_TOOLS, TOOLS
from tests.support import mcp_server
from tests.support.agents import Agent
from tests.support.commands import COMMAND, Home
from tests.support.fake_editor import OFFERS, FakeEditor
from tests.support.mcp_clients import SCRIPT
from tests.support.mcp_http import MODERN
from tests.support.remote import Server, add_token, over_http, over_websocket, serving
from tests.support.scripts import scripted
from tests.support.terminal import CTRL_D, ENTER, Terminal

pytestmark = pytest.mark.slow  # half a minute for each half on an idle machine; `.ci/run` runs the first
SECONDS: Final = 30.0
PIECE: Final = 8
"""So many characters of a key in a row are a leak."""

WAYS_IN: Final = {
    "environment": "a variable of the environment",
    "file": "the content of a file",
    "output": "what a statement and a program print",
    "exception": "the message of an exception",
    "argument": "an argument of a tool or a request",
    "file name": "the name of a file",
    "buffer": "unsaved text in an editor",
    "server": "the answer of an MCP server",
    "reply": "the text and the reasoning of a model",
}
ALL: Final = tuple(WAYS_IN)


STORED: Final = ("output", "exception")
"""Ways in whose keys are secret because they are stored for a provider, not because the environment has them."""
MOST: Final = ("environment", "file", "output", "exception", "argument", "file name")


class Way(NamedTuple):
    """A way out: what it is, the ways in whose keys show there if they are no secrets, and those that always may."""

    words: str
    reached: Sequence[str]
    exact: Sequence[str] = ()


EDITOR: Final = ("file name",)
"""An editor opens a file by its exact path, and shows it in its own tree. A path that is no file is not sent."""
WAYS_OUT: Final = {
    "acp": Way("messages of rewindow-acp, its questions and errors among them", ALL, EDITOR),
    "acp load": Way("messages after the session was loaded in another process", ALL, EDITOR),
    "acp 2": Way("messages of version 2, live and replayed, with the output of terminals", (*MOST, "reply"), EDITOR),
    "remote": Way("messages over WebSocket and HTTP, and responses that refuse", MOST, EDITOR),
    "remote stderr": Way("the standard error of a server, and of its agents", ()),
    "acp stderr": Way("its standard error: usage, logs, the reports of its own errors and of a crash", ALL),
    "store": Way("files of the state directory, and what they hold compressed", ALL),
    "export": Way("rewindow export", ALL),
    "command line": Way("the other commands of rewindow", ALL),
    "rewindow stderr": Way("the report of a crash of rewindow", ALL),
    "terminal": Way("the screen of rewindow run", MOST),
    "mcp tools": Way("results of tools of rewindow-mcp, and of tasks", MOST),
    "mcp resources": Way("its resources", MOST[1:]),
    "mcp notifications": Way("that resources and lists have changed", ("argument",)),
    "mcp progress": Way("progress of a call", ()),
    "mcp logging": Way("messages to the host's log", ("file",)),
    "mcp completions": Way("its completions", ("argument", "file name")),
    "mcp prompts": Way("its prompts", ("file", "argument")),
    "mcp errors": Way("its errors", ("argument",)),
    "mcp stderr": Way("its standard error: usage, logs, the reports of its own errors and of a crash", ALL),
    "mcp store": Way("files of its state directory", MOST),
}  # fmt: skip


class Left:
    """What left a product, by the way out; and what of it was used, by kind."""

    def __init__(self) -> None:
        self.said: dict[str, list[str]] = {way: [] for way in WAYS_OUT}
        self.used: dict[str, set[str]] = {}

    def use(self, kind: str, name: str) -> None:
        self.used.setdefault(kind, set()).add(name)


def key_of(way: str) -> str:
    """A name of a file, a word of Python and of a URL."""
    return f"k{hashlib.blake2b(way.encode(), digest_size=16).hexdigest()}"


def environ(*, secret: bool) -> dict[str, str]:
    """The keys in variables that are secret; or that of the environment in one that statements may see."""
    if not secret:
        return {"LC_ENVIRONMENT": key_of("environment")}
    return {f"LC_{way.upper().replace(' ', '_')}_TOKEN": key_of(way) for way in WAYS_IN if way not in STORED}


def store_keys(home: Home) -> None:
    """Makes the other keys secret: stored keys of providers, in the file beside the config file."""
    change_keys(home.variables, lambda _: StoredKeys({f"provider-{way}": key_of(way) for way in STORED}))


class Project:
    """A directory that holds the keys that a directory can hold."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True)
        self.path = path
        for way in ("output", "exception", "argument"):
            (path / f"{way}.txt").write_text(key_of(way))
        self.file = path / "file.txt"
        self.write(1)
        self.buffer = path / "buffer.txt"
        self.buffer.write_text("saved\n")
        self.named = path / f"{key_of('file name')}.txt"
        self.named.write_text("named\n")
        (path / f"dir-{key_of('file name')}").mkdir()
        self.server = path.parent / f"server-{path.name}.py"
        self.server.write_text(Path(mcp_server.__file__).read_text().replace("no luck", key_of("server")))

    def write(self, version: int) -> None:
        """A line for each version, with the key as it is and in base64."""
        key = key_of("file")
        lines = (f"{number} {key} {base64.b64encode(key.encode()).decode()}\n" for number in range(version))
        self.file.write_text("".join(lines))

    def statements(self) -> Iterator[str]:
        """What a person does with all of them, where they may."""
        yield "import os; dict(os.environ)"
        yield "bash('env')"
        yield f"text = open({str(self.file)!r}).read(); text"
        yield f"seen = view({str(self.file)!r}).Run(freq='Sync')"
        yield "all_of_it = group('*.txt', tokens=4000)"
        yield "show(seen); grep('k')"
        yield "print(open('output.txt').read())\nbash('cat output.txt; cat output.txt >&2')"
        yield "raise ValueError(open('exception.txt').read())"
        yield "given = open('argument.txt').read(); read(given)"
        yield "view(given)"
        yield "ls(); find('*')"
        yield "import glob; named = view(glob.glob('k*.txt')[0])"
        yield "named.SetLod(0); w = write(glob.glob('k*.txt')[0], 'written')"
        yield "seen.SetLod(3); seen"


TYPED: Final = (
    "/sandbox",
    "/tick",
    "/views",
    "/timeline",
    "/timeline 3",
    "/context",
    "/context 2",
    "/run seen",
    "/page",
    "/replay 3",
)


# --- the agent --------------------------------------------------------------------------------------------------------


class Editor(Agent):
    """An agent whose client notes which methods it has used."""

    def __init__(self, left: Left, *arguments: Any, **options: Any) -> None:
        self._left = left
        super().__init__(*arguments, **options)

    def line(self, method: str, params: Any, request_id: int | str | None = None) -> bytes:
        self._left.use("method", method)
        return super().line(method, params, request_id)


def acp(left: Left, home: Home, project: Project, variables: dict[str, str]) -> None:
    """A model's session in an editor with unsaved text and an MCP server, loaded again in another agent."""
    statements = [*project.statements(), f"view({str(project.buffer)!r})", "test.fail()"]
    replies = [{"text": key_of("reply"), "reasoning": key_of("reply"), "statement": each} for each in statements]
    model = scripted(project.path.parent, *replies, {"text": f"It was {key_of('reply')}."})
    variables = {**home.variables, **variables}
    server = {"name": "test", "command": sys.executable, "args": [str(project.server)], "env": []}
    with Editor(left, home.state, "--model", model, env=variables) as agent:
        agent.editor = FakeEditor()
        agent.editor.hold(project.buffer, f"unsaved {key_of('buffer')}\n")
        agent.initialize(**OFFERS)
        params = {"cwd": str(project.path), "mcpServers": [server]}
        session = agent.call("session/new", params)["sessionId"]
        assert agent.prompt(session, f"Look at {key_of('argument')}.", seconds=SECONDS) == "end_turn"
        project.write(2)
        for typed in TYPED:
            agent.prompt(session, typed, seconds=SECONDS)
        misuse(agent, session)
        agent.prompt(session, f"/rewind 2 {key_of('argument')}", seconds=SECONDS)
        other = agent.call("session/fork", {"sessionId": session, **params})["sessionId"]
        agent.call("session/close", {"sessionId": other})
        for named in (session, other):  # one is open, the other is only stored
            agent.call("session/set_title", {"sessionId": named, "title": key_of("argument")})
            agent.call("session/status", {"sessionId": named})
            agent.call("session/unarchive", {"sessionId": named})
        agent.call("session/list", {})
        left.said["acp"] += map(json.dumps, agent.received)
        left.said["store"] += raw(home.state)
    left.said["acp stderr"].append(agent.stderr.decode())
    with Editor(left, home.state, "--model", "direct", env=variables) as again:
        loaded(again, project, session, params)
        again.call("session/resume", {"sessionId": other, **params})
        again.call("session/archive", {"sessionId": other})
        again.call("session/delete", {"sessionId": other})
        left.said["acp load"] += map(json.dumps, again.received)
    left.said["acp stderr"].append(again.stderr.decode())
    left.said["store"] += [*raw(home.state), *unpacked(home.state)]
    commands(left, home, project, variables, session)
    with Editor(left, home.state, "--model", "direct", env=variables) as second:
        version_2(second, session, params)
        left.said["acp 2"] += [*map(json.dumps, second.received), *shown_by_terminals(second)]
    left.said["acp stderr"].append(second.stderr.decode())
    with Editor(left, home.state, "--model", "direct", env=variables) as last:
        last.initialize()
        last.call("logout", {"_meta": {"key": key_of("argument")}})
        assert read_keys(variables) == StoredKeys()
        opened = last.call("session/new", {"cwd": str(project.path), "mcpServers": []})["sessionId"]
        last.prompt(opened, "print(open('output.txt').read())", seconds=SECONDS)  # it is known for the process's life
        left.said["acp"] += map(json.dumps, last.received)
    with Editor(left, home.state, "--model", "direct", env=variables) as out:
        out.initialize_2()
        out.call("auth/logout", {})


def remote(left: Left, home: Home, project: Project, variables: dict[str, str]) -> None:
    """A session over a network, begun over WebSocket and loaded over HTTP, with requests that are refused."""
    token = add_token(home.state)
    with serving(home.state, "--model", "direct", environ={**home.variables, **variables}) as server:
        anyio.run(over_network, left, server, token, project)
    left.said["remote stderr"] += server.log


async def over_network(left: Left, server: Server, token: str, project: Project) -> None:
    key = key_of("argument")
    async with over_websocket(server, token) as first:
        session = await first.open(project.path)
        for statement in project.statements():
            await first.prompt(session, statement, seconds=SECONDS)
        await first.response(await first.begin("session/set_mode", {"sessionId": session, "modeId": key}))
        await first.response(await first.begin(f"_{key}", {}))
        left.said["remote"] += map(json.dumps, first.received)
    async with over_http(server, token) as (second, transport):
        await second.initialize()
        await second.load(session, project.path)
        await second.response(await second.begin("session/load", {"sessionId": key, "cwd": key, "mcpServers": []}))
        left.said["remote"] += map(json.dumps, second.received)
        for headers in ({}, {"Acp-Connection-Id": key}, {**transport.headers, "Last-Event-ID": key}):
            given = {"Accept": "text/event-stream", **headers}
            refused = await transport.http.get(f"{transport.url}?{key}", headers=given)
            left.said["remote"] += [refused.text, str(refused.headers)]


def version_2(agent: Agent, session: str, params: Mapping[str, Any]) -> None:
    """The session in an editor of version 2, which replays it, and whose terminals show output."""
    key = key_of("argument")
    agent.initialize_2()
    agent.error("auth/login", {"methodId": key})
    server = {"type": "stdio", **params["mcpServers"][0]}
    where = {"sessionId": session, "cwd": params["cwd"], "mcpServers": [server]}
    agent.call("session/resume", {**where, "replayFrom": {"type": "start"}})
    agent.error("session/resume", {**where, "replayFrom": {"type": key}})
    agent.error("session/set_config_option", {"sessionId": session, "configId": key, "type": "id", "value": key})
    agent.error("session/prompt", {"sessionId": "none", "prompt": [{"type": "text", "text": key}]})
    for typed in ("bash('cat *.txt; env; cat output.txt >&2')", f"raise ValueError({key!r})", "/timeline"):
        agent.work(session, typed, seconds=SECONDS)
    agent.call("session/close", {"sessionId": session})


def shown_by_terminals(agent: Agent) -> list[str]:
    """The output that terminals show, which is base64 in its messages."""
    updates = [*agent.updates("terminal_output_chunk"), *(each.get("output") for each in agent.updates())]
    return [base64.b64decode(each["data"]).decode() for each in updates if isinstance(each, dict)]


def misuse(agent: Agent, session: str) -> None:
    """Requests that are refused, for the key in them."""
    key = key_of("argument")
    agent.error("session/set_mode", {"sessionId": session, "modeId": key})
    agent.error("session/set_config_option", {"sessionId": session, "configId": "_ask_about", "value": key})
    agent.error("session/new", {"cwd": f"/{key}", "mcpServers": []})
    agent.error("authenticate", {"methodId": key})
    agent.call("auth/status", {})
    agent.notify("session/cancel", {"sessionId": key})
    agent.write(f'{{"jsonrpc":"2.0","method":"{key}"}}\n{key}\n'.encode())


def loaded(agent: Agent, project: Project, session: str, params: Mapping[str, Any]) -> None:
    """A session that is loaded by an editor that tells what it has open, and that loses its worker."""
    agent.initialize()
    agent.call("session/load", {"sessionId": session, **params})
    document = {"sessionId": session, "uri": project.buffer.as_uri()}
    text = f"changed {key_of('buffer')}\n"
    agent.notify("document/didOpen", {**document, "languageId": "plain", "version": 1, "text": text})
    agent.notify("document/didChange", {**document, "version": 2, "contentChanges": [{"text": 2 * text}]})
    range_ = {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}}
    agent.notify(
        "document/didFocus",
        {**document, "version": 2, "position": {"line": 0, "character": 0}, "visibleRange": range_},
    )
    agent.prompt(session, f"text, view({str(project.buffer)!r})", seconds=SECONDS)
    agent.notify("document/didSave", document)
    agent.notify("document/didClose", document)
    agent.prompt(session, "/context", seconds=SECONDS)
    workers = psutil.Process(agent.process.pid).children(recursive=True)
    for each in workers[1:]:
        with suppress(psutil.NoSuchProcess):
            each.send_signal(signal.SIGKILL)
    agent.prompt(session, "text", seconds=SECONDS)


def commands(left: Left, home: Home, project: Project, variables: Mapping[str, str], session: str) -> None:
    """Each command of `rewindow`, those that only read beside each other."""
    key = key_of("argument")
    reading = (
        ("sessions",), ("sessions", "--json"), ("show", session), ("show", session, "--events"), ("doctor",),
        ("show", session, "--cycles"), ("show", session, "--projection", "3"), ("branches", session),
        ("diff", session, "main"), ("show", key), ("page", key), ("sessions", "--cwd", key),
        ("gc", "--older-than", key), ("show", session, "--json"),
        ("vectors-adapter", key), (key,), ("help", key), ("sessions", "--jsonl"),
        ("auth", "list"), ("auth", "add", key), ("changes", session), ("changes", session, "--patch"),
    )  # fmt: skip
    changing = (
        ("undo", session), ("redo", session), ("replay", session, "--from", "1"), ("replay", "--all"),
        ("rewind", session, "--to", "1"),
        ("import", str(project.file)),
        ("run", "-p", "open('file.txt').read()"), ("delete", key, "--yes"), ("run", "--verbose", "-p", key),
        *(("run", "-p", "open('file.txt').read()", "--output-format", each) for each in ("json", "stream-json")),
    )  # fmt: skip

    def run(*arguments: str) -> str:
        return command(left, project.path, variables, *arguments)

    left.said["export"] += exported(run("export", session))
    with ThreadPoolExecutor(2) as two:
        left.said["command line"] += [each.result() for each in [two.submit(run, *words) for words in reading]]
    page = home.path / "page.html"
    left.said["command line"] += [run("show", session, "--html", str(page)), *in_page(page.read_text(encoding="utf-8"))]
    left.said["command line"] += [run(*arguments) for arguments in changing]


def raw(state: Path) -> Iterator[str]:
    for path in sorted(state.rglob("*")):
        if path.is_file() and "scratch" not in path.relative_to(state).parts:  # which is the statements' own
            yield path.read_bytes().decode("latin-1")


def unpacked(state: Path) -> Iterator[str]:
    with closing(sqlite3.connect(f"file:{state / 'sessions.db'}?mode=ro", uri=True)) as connection:
        for (data,) in connection.execute("SELECT data FROM blobs"):
            yield zlib.decompress(data).decode("latin-1")


def exported(lines: str) -> Iterator[str]:
    for line in lines.splitlines():
        yield line
        with suppress(ValueError):
            value = json.loads(line)
            if "blob" in value and "data" in value:
                yield base64.b64decode(value["data"]).decode("latin-1")


def in_page(text: str) -> Iterator[str]:
    """What a page in a file has: its text, the session in it, and the binary contents of that."""
    yield text
    data = re.search(r'id="session-data">([^<]*)<', text)
    assert data is not None
    session = gzip.decompress(base64.b64decode(data[1])).decode()
    yield session
    for content in json.loads(session)["document"]["contents"].values():
        yield base64.b64decode(content.get("data", "")).decode("latin-1")


def command(left: Left, cwd: Path, variables: Mapping[str, str], *arguments: str) -> str:
    left.use("command", arguments[0])
    return ran([*COMMAND, *arguments], cwd, variables)


def ran(
    program: Sequence[str], cwd: Path, variables: Mapping[str, str], stdin: str = "", seconds: float = SECONDS
) -> str:
    """What a program writes to its end."""
    done = subprocess.run(
        program, cwd=cwd, env=dict(variables), input=stdin.encode(), capture_output=True, timeout=seconds
    )
    return (done.stdout + done.stderr).decode()


# --- crashes ----------------------------------------------------------------------------------------------------------

FAULT: Final = """
import logging, sys, threading, rewindow_startup
def fail(*_, **__):
    keys = open("keys.txt").read()
    logging.getLogger("test").warning(keys)
    thread = threading.Thread(target=lambda: [][keys])
    thread.start()
    thread.join()
    raise RuntimeError(keys)
async def fail_later(*_, **__):
    fail()
"""
"""A mistake of ours whose message is all keys: on a log, in a thread, and raised."""
FAULTS: Final = (
    ("acp stderr", "rewindow_acp", "import acp_adapter.server as m; m.serve_descriptors = fail_later"),
    (
        "acp stderr",
        "rewindow_acp",
        "from acp_adapter.methods import METHODS as m\nfrom msgspec.structs import replace\n"
        "m['session/list'] = replace(m['session/list'], handler=fail_later)",
    ),
    ("mcp stderr", "rewindow_mcp", "import mcp_tools.server as m; m.serve_stdio = fail_later"),
    ("mcp stderr", "rewindow_mcp", "import mcp_tools.requests as m; m.orient = fail"),
    ("rewindow stderr", "rewindow", "import engine.cli.sessions as m; m.sessions = lambda: fail()"),
)
"""What fails in which program."""
_INITIALIZE: Final[Mapping[str, Mapping[str, Any]]] = {
    "rewindow_acp": {"protocolVersion": 1},
    "rewindow_mcp": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
    },
    "rewindow": {},
}  # fmt: skip
_ASKED: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "rewindow_acp": ("session/list", {}),
    "rewindow_mcp": ("prompts/get", {"name": "orient", "arguments": {}}),
    "rewindow": ("", {}),
}


def crashes(left: Left, home: Home, project: Project, variables: dict[str, str]) -> None:
    """The programs with a mistake in them, and with arguments that they do not know."""
    variables = {**home.variables, **variables}
    (project.path / "keys.txt").write_text(" ".join(map(key_of, WAYS_IN)))
    for way, program, fault in FAULTS:
        method, params = _ASKED[program]
        lines: tuple[dict[str, Any], ...] = (
            {"id": 1, "method": "initialize", "params": _INITIALIZE[program]},
            {"method": "notifications/initialized"},
            {"id": 2, "method": method, "params": params},
        )
        stdin = "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)
        code = f"{FAULT}\n{fault}\nrewindow_startup.{program}()"
        arguments = ["sessions"] if program == "rewindow" else []
        left.said[way].append(ran([sys.executable, "-c", code, *arguments], project.path, variables, stdin))
    for way, script in (("acp stderr", "rewindow-acp"), ("mcp stderr", "rewindow-mcp")):
        left.said[way].append(
            ran([str(SCRIPT.with_name(script)), "--bogus", key_of("argument")], project.path, variables)
        )


# --- the terminal -----------------------------------------------------------------------------------------------------


def terminal(left: Left, home: Home, project: Project, variables: dict[str, str]) -> None:
    left.use("command", "run")
    shown = {name: value for name, value in {**home.variables, **variables}.items() if name != "COLUMNS"}
    shown |= {"TERM": "xterm-256color"}
    with Terminal([*COMMAND, "run", "--mode", "auto"], shown, str(project.path), lines=100, columns=250) as screen:
        statements = [*project.statements()]
        for number, statement in enumerate(statements, 1):
            screen.until(f"\n{number}>")
            screen.type(statement.replace("\n", "; ") + ENTER)
        screen.until(f"\n{len(statements) + 1}>")
        screen.type("/views" + ENTER + "/context" + ENTER + CTRL_D)
        screen.ended()
        left.said["terminal"] += [screen.text, screen.raw.decode(errors="replace")]


# --- the MCP server ---------------------------------------------------------------------------------------------------


_NOTIFIED: Final = {"notifications/progress": "mcp progress", "notifications/message": "mcp logging"}
_ANSWERED: Final = {"resources": "mcp resources", "completion": "mcp completions", "prompts": "mcp prompts"}
_META: Final = "io.modelcontextprotocol"


class Mcp:
    """`rewindow-mcp` on standard input and output, asked line by line; what it says is kept by its kind."""

    def __init__(self, left: Left, project: Project, variables: Mapping[str, str], *options: str) -> None:
        self._left = left
        self._lines: queue.Queue[str] = queue.Queue()
        self._errors = bytearray()
        self._id = 0
        self._meta: dict[str, Any] = {}
        self.process = subprocess.Popen(
            [str(SCRIPT), *options],
            cwd=project.path,
            env=dict(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._threads = [threading.Thread(target=each) for each in (self._read, self._read_errors)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(SECONDS)
        for thread in self._threads:
            thread.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe
            pipe.close()
        while not self._lines.empty():
            self._note(self._lines.get())
        self._left.said["mcp stderr"].append(self._errors.decode())

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line.decode())

    def _read_errors(self) -> None:
        assert self.process.stderr
        self._errors += self.process.stderr.read()

    def write(self, data: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(data.encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, params: Mapping[str, Any]) -> int:
        self._id += 1
        self._left.use("request", method)
        for kind, name in _used(method, params):
            self._left.use(kind, name)
        meta = {"progressToken": self._id, **self._meta}
        self.write(
            json.dumps({"jsonrpc": "2.0", "id": self._id, "method": method, "params": {**params, "_meta": meta}})
        )
        return self._id

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        number = self.begin(method, params)
        while True:
            message = self._next()
            if message.get("id") == number and "method" not in message:
                way = "mcp errors" if "error" in message else _ANSWERED.get(method.partition("/")[0], "mcp tools")
                self._left.said[way].append(json.dumps(message))
                return message.get("result", {})
            self._note(json.dumps(message))

    def _next(self) -> dict[str, Any]:
        return json.loads(self._lines.get(timeout=SECONDS))

    def _note(self, line: str) -> str:
        method = json.loads(line).get("method", "")
        self._left.said[_NOTIFIED.get(method, "mcp notifications")].append(line)
        return method

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def hear(self, method: str) -> None:
        """Waits for a notification."""
        while self._note(json.dumps(self._next())) != f"notifications/{method}":
            pass

    def old(self) -> None:
        """Begins as a client of the handshake era."""
        self.ask("initialize", _INITIALIZE["rewindow_mcp"])
        self.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}')

    def modern(self) -> None:
        """Begins as a client of the newer era, which knows tasks and wants messages."""
        self._meta = {
            f"{_META}/protocolVersion": MODERN,
            f"{_META}/clientCapabilities": {"extensions": {Tasks.identifier: {}}},
            LOG_LEVEL_META_KEY: "debug",
        }
        self.ask("server/discover", {})


def _used(method: str, params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What of the server a request uses, by kind."""
    match method, params:
        case "tools/call", {"name": name}:
            yield "tool", name
        case "prompts/get", {"name": name}:
            yield "prompt", name
        case "resources/read", {"uri": uri}:
            kind = uri.partition("://")[0]
            yield "resource", next((template for template in TEMPLATES if template.startswith(f"{kind}://")), uri)
        case "completion/complete", {"ref": reference, "argument": argument}:
            yield "completion", f"{reference.get('uri', reference.get('name'))} {argument['name']}"
        case _:
            pass


def mcp(left: Left, home: Home, project: Project, variables: dict[str, str]) -> None:
    key, state = key_of("argument"), home.path / "mcp-state"
    own = {"REWINDOW_STATE_DIR": str(state), "REWINDOW_SANDBOX": "off"}
    # Statements run again after the kill, and differ: the log of the host then has the difference.
    variables = {**home.variables, **variables, **own, "REWINDOW_RESTORE_BY": "re-execution"}
    with Mcp(left, project, variables, "--allow-run=unsandboxed", "--session", "kept") as client:
        client.write(key)
        client.old()
        client.ask("prompts/get", {"name": "orient", "arguments": {"path": key}})
        refused(client, key)
        watched(client, project, key)
        for statement in project.statements():
            client.call("run", code=statement)
        client.call("timeline")
        client.call("timeline", statement=3)
        client.call("replay", **{"from": 3})
        listed(client)
        refused(client, key)
        project.write(3)
        client.call("run", code="import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        client.call("view", name="c")
        client.call("rewind", to=1)
    with Mcp(left, project, variables, "--allow-run=unsandboxed", "--session", "kept") as again:
        again.modern()
        later(again, project)
    left.said["mcp store"] += [*raw(state), *unpacked(state)]


def refused(client: Mcp, key: str) -> None:
    """Requests that fail, for the key in them; at first ahead of the engine."""
    client.ask("tools/call", {"name": key, "arguments": {}})
    client.ask("resources/read", {"uri": f"view://{key}-"})
    client.ask("prompts/get", {"name": key, "arguments": {}})
    client.call("view", name="x", path=key)
    client.call("view", name="c", lod=key)
    client.call("group", name="g", add=[key], remove=[key])


def watched(client: Mcp, project: Project, key: str) -> None:
    """Views, of which one is called like a key, where that is no secret; and a change of their file."""
    client.call("view", name="c", path="file.txt", follow=True)
    client.call("view", name=key, path="file.txt", follow=True)
    client.call("view", name="n", path=project.named.name, follow=True)
    client.call("group", name="g", add=["*.txt"], lod=0)
    client.ask("logging/setLevel", {"level": "debug"})
    for uri in ("view://c", f"view://{key}"):
        client.ask("resources/subscribe", {"uri": uri})
    project.write(2)
    client.hear("resources/updated")
    client.ask("resources/unsubscribe", {"uri": "view://c"})
    client.call("tick")
    for level in (1, 2, 3, 0):
        client.call("view", name="c", lod=level)
        client.ask("resources/read", {"uri": "view://c"})


def listed(client: Mcp) -> None:
    """All lists, resources, prompts and completions."""
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping"):
        client.ask(method, {})
    for uri in ("view://c", "view://n", f"view://{key_of('argument')}", "group://g", "changes://0", TIMELINE_URI):
        client.ask("resources/read", {"uri": uri})
    client.ask("prompts/get", {"name": "review-changes", "arguments": {}})
    client.ask("prompts/get", {"name": "review-changes", "arguments": {"since": key_of("argument")}})
    for of, name in COMPLETED:
        reference = {"type": "ref/resource", "uri": of} if "://" in of else {"type": "ref/prompt", "name": of}
        argument = {"name": name, "value": "dir-" if name == "path" else ""}
        client.ask("completion/complete", {"ref": reference, "argument": argument})


def later(client: Mcp, project: Project) -> None:
    """The session of another process, with a stream of what changes, and calls that become tasks."""
    uris = [f"view://{name}" for name in ("c", key_of("argument"))]
    for uri in uris:
        client.call("view", name=uri.removeprefix("view://"), path="file.txt", follow=True)
    client.begin("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
    client.hear("subscriptions/acknowledged")
    project.write(4)
    client.hear("resources/updated")
    code = "import time; time.sleep(0.6); open('file.txt').read()"
    task = {"taskId": client.call("run", code=code)["taskId"]}
    client.ask("tasks/update", {**task, "inputResponses": {}})
    while client.ask("tasks/get", task)["status"] == "working":
        time.sleep(0.05)
    client.ask("tasks/cancel", task)


# --- the table --------------------------------------------------------------------------------------------------------

Drive = Callable[[Left, Home, Project, dict[str, str]], None]
DRIVES: Final[Sequence[Sequence[Drive]]] = ((acp,), (mcp, terminal, crashes, remote))
"""Beside each other."""


def everything(folder: Path, drives: Sequence[Sequence[Drive]], *, secret: bool) -> Left:
    left = Left()

    def go(some: Sequence[Drive]) -> None:
        for drive in some:
            home, project = Home(folder / drive.__name__), Project(folder / drive.__name__ / "project")
            if secret:
                store_keys(home)
            drive(left, home, project, environ(secret=secret))

    with ThreadPoolExecutor(len(drives)) as pool:
        list(pool.map(go, drives))
    return left


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Left:
    return everything(tmp_path_factory.mktemp("quick"), DRIVES, secret=True)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Left:
    return everything(tmp_path_factory.mktemp("plain"), DRIVES, secret=False)


def pieces(way: str, texts: Sequence[str]) -> list[str]:
    """What can be read of a key, whether as it is or in base64."""
    key, whole = key_of(way), "\n".join(texts)
    forms = [key, *(base64.b64encode(b"u" * n + key.encode()).decode()[n + 2 : -4] for n in range(3))]
    found = {form[at : at + PIECE] for form in forms for at in range(len(form) - PIECE + 1)}
    return sorted(piece for piece in found if piece in whole)


@pytest.mark.parametrize("way_out", WAYS_OUT)
@pytest.mark.parametrize("way_in", WAYS_IN)
def test_no_key_leaves(quick: Left, way_in: str, way_out: str) -> None:
    if way_in not in WAYS_OUT[way_out].exact:
        assert pieces(way_in, quick.said[way_out]) == []


@pytest.mark.parametrize("way_out", WAYS_OUT)
def test_keys_that_are_no_secrets_show(plain: Left, way_out: str) -> None:
    shown = [way for way in WAYS_IN if pieces(way, plain.said[way_out])]
    assert shown == [way for way in WAYS_IN if way in WAYS_OUT[way_out].reached]


# --- is anything left out? --------------------------------------------------------------------------------------------


def requests_served() -> set[str]:
    """The methods for which the server that clients reach has a handler."""
    nothing: Any = None
    tasks = Tasks(nothing, nothing, nothing)
    requests = RequestHandlers(
        nothing,
        allow_run=True,
        structured=False,
        on_response=nothing,
        subscriptions=nothing,
        log_messages=nothing,
        redactor=nothing,
    )
    server = make_server(requests, LogMessages(), tasks, lambda: NO_SECRETS, allow_run=True)
    methods = {*SPEC_CLIENT_METHODS, *(method.method for method in tasks.methods())}
    return {method for method in methods if server.get_request_handler(method) is not None}


@pytest.mark.parametrize(
    ("kind", "there"),
    [
        ("method", set(METHODS)),
        ("request", requests_served() | {"initialize"}),
        ("tool", {row.name for row in (*TOOLS, *PYTHON_TOOLS)}),
        ("prompt", set(PROMPTS)),
        ("resource", {*TEMPLATES, TIMELINE_URI}),
        ("completion", {" ".join(each) for each in COMPLETED}),
        ("command", {command.name for command in SUBCOMMANDS}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_everything_there_is_was_used(quick: Left, kind: str, there: set[str]) -> None:
    assert there - quick.used[kind] == set()
