"""Two users of one server, each under an account of its own, and what one of them tries against the other."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.support.postgresql import running
from tests.support.remote import (
    Server,
    add_token,
    bearer,
    forget_connections,
    over_http,
    over_websocket,
    python_for_all,
    serving,
)
from tests.support.scripts import scripted

forgotten = pytest.fixture(autouse=True)(forget_connections)
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can serve users under their own accounts"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="nothing here shows other accounts root's Python"),
]
ANN, BOB = "games", "daemon"
"""Accounts that every system has."""
SECRET = "ann's secret 4711"
TITLE = "ann's work"
PASSWORD = "database-password-99"
STREAM = {"Accept": "text/event-stream"}


class World:
    """The server, ann's session with a secret in it, and what bob has."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.state = base / "served"
        self.ann_home, self.bob_home = base / "ann", base / "bob"
        self.ann_token = self.bob_token = ""
        self.server: Server
        self.session = ""

    @property
    def probe(self) -> str:
        return PROBE.replace("__BASE__", repr(str(self.base))).replace("__UID__", str(pwd.getpwnam(ANN).pw_uid))

    @property
    def url(self) -> str:
        return f"http://{self.server.url}"


def _owned(folder: Path, account: str) -> Path:
    found = pwd.getpwnam(account)
    folder.mkdir()
    folder.chmod(0o700)
    os.chown(folder, found.pw_uid, found.pw_gid)
    return folder


@contextmanager
def _place() -> Iterator[Path]:
    """A directory that every account can reach. Other runs of pytest close the directory of `tmp_path`."""
    base = Path(tempfile.mkdtemp(prefix="rewindow-users-"))
    base.chmod(0o755)
    try:
        yield base
    finally:
        shutil.rmtree(base)


PROBE = """
import glob, os, re, socket
found = []
def attempt(name, act):
    try:
        found.append(f'{name}: {act()!r}')
    except BaseException as error:
        found.append(f'{name}: no, {type(error).__name__}')
def read(path):
    with open(path, 'rb') as file:
        return file.read(1 << 20)
base = __BASE__
attempt('file', lambda: read(base + '/ann/secret.txt'))
attempt('listing', lambda: os.listdir(base + '/ann'))
attempt('sessions', lambda: read(base + '/served/users/ann/sessions.db'))
attempt('state', lambda: os.listdir(base + '/served/users/ann'))
attempt('tokens', lambda: read(base + '/served/acp-tokens'))
attempt('own environ', lambda: dict(os.environ))
attempt('proc environ', lambda: read('/proc/self/environ'))
for pid in [each for each in os.listdir('/proc') if each.isdigit()]:
    for part in ('environ', 'mem', 'fd', 'maps', 'cmdline'):
        path = f'/proc/{pid}/{part}'
        if part == 'mem' and int(pid) == os.getpid():
            continue
        attempt(path, lambda: os.listdir(path) and '' if part == 'fd' else read(path))
    try:
        theirs = os.stat(f'/proc/{pid}').st_uid
    except OSError:
        continue
    if theirs != os.getuid():
        attempt(f'kill {pid}', lambda: os.kill(int(pid), 0) or 'KILLABLE')
attempt('write', lambda: open(base + '/ann/planted', 'w').write('x'))
attempt('plant', lambda: os.symlink('/etc', base + '/served/users/ann/planted'))
attempt('become', lambda: os.setuid(__UID__) or 'BECAME ANN')
attempt('unix', lambda: [line for line in open('/proc/net/unix') if base in line])
text = '\\n'.join(found)
"""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with _place() as base:
        world = World(base)
        _owned(world.ann_home, ANN)
        _owned(world.bob_home, BOB)
        (world.ann_home / "secret.txt").write_text(SECRET)
        os.chown(world.ann_home / "secret.txt", pwd.getpwnam(ANN).pw_uid, -1)
        (world.ann_home / "secret.txt").chmod(0o600)
        world.ann_token = add_token(world.state, "ann", ANN)
        world.bob_token = add_token(world.state, "bob", BOB)
        model = scripted(base, {"statement": f"{world.probe}\nprint(text)"}, {"text": "Probed."})
        (base / "replies.jsonl").chmod(0o644)
        environ = {"PGPASSWORD": PASSWORD}
        with serving(world.state, "--model", model, environ=environ, prefix=python_for_all()) as world.server:
            anyio.run(_prepare, world)
            yield world


async def _prepare(world: World) -> None:
    async with over_websocket(world.server, world.ann_token) as ann:
        world.session = await ann.open(world.ann_home)
        await ann.prompt(world.session, f"/run secret = {SECRET!r}")
        await ann.call("session/set_title", {"sessionId": world.session, "title": TITLE})
    async with over_websocket(world.server, world.bob_token) as bob:
        await bob.open(world.bob_home)


async def _still_there(world: World) -> None:
    """Ann's session is as she left it."""
    async with over_websocket(world.server, world.ann_token) as ann:
        await ann.initialize()
        listed = (await ann.call("session/list", {}))["sessions"]
        assert [row["sessionId"] for row in listed] == [world.session]
        assert listed[0]["title"] == TITLE
        await ann.load(world.session, world.ann_home)
        await ann.prompt(world.session, "/run print(secret)")
        assert SECRET in str(ann.updates()[-8:])


# --- by the protocol --------------------------------------------------------------------------------------------------

OPEN = {"cwd": "/", "mcpServers": []}
METHODS: dict[str, dict[str, Any]] = {
    "session/load": OPEN,
    "session/resume": OPEN,
    "session/fork": OPEN,
    "session/prompt": {"prompt": [{"type": "text", "text": "/run print(secret)"}]},
    "session/close": {},
    "session/set_mode": {"modeId": "auto"},
    "session/set_config_option": {"configId": "mode", "value": "auto"},
    "session/set_title": {"title": "bob was here"},
    "session/status": {},
    "session/archive": {},
    "session/unarchive": {},
    "session/delete": {},
}


@pytest.mark.parametrize("method", METHODS)
async def test_another_users_session_is_like_one_that_never_was(world: World, method: str) -> None:
    async with over_websocket(world.server, world.bob_token) as bob:
        await bob.initialize()
        answers: list[str] = []
        for session in (world.session, "ses_01a22c15b67c03f49df884ff"):
            response = await bob.response(await bob.begin(method, {"sessionId": session, **METHODS[method]}))
            answers.append(json.dumps({**response, "id": 0}).replace(session, "SESSION"))
        assert answers[0] == answers[1]
        assert "-32002" in answers[0] or method == "session/delete"
        assert SECRET not in str(bob.received)
    await _still_there(world)


async def _foreign_connection(
    world: World, attack: Callable[[httpx.AsyncClient, dict[str, str]], Awaitable[Any]]
) -> None:
    """Perform an attack with bob's token and the id of ann's connection, then with one that never was."""
    async with over_http(world.server, world.ann_token) as (ann, transport):
        await ann.initialize()
        async with httpx.AsyncClient(headers=bearer(world.bob_token), trust_env=False) as http:
            answers = [
                await attack(http, {"Acp-Connection-Id": connection})
                for connection in (transport.headers["Acp-Connection-Id"], "x" * 32)
            ]
            assert [answer.status_code for answer in answers] == [404, 404]
            assert answers[0].text == answers[1].text
        await ann.call("session/list", {})


async def test_posts_to_another_users_connection(world: World) -> None:
    message = {"jsonrpc": "2.0", "id": 5, "method": "session/list", "params": {}}
    await _foreign_connection(world, lambda http, headers: http.post(world.url, json=message, headers=headers))


async def test_streams_of_another_users_connection(world: World) -> None:
    await _foreign_connection(world, lambda http, headers: http.get(world.url, headers={**STREAM, **headers}))


async def test_positions_of_another_users_connection(world: World) -> None:
    more = {**STREAM, "Last-Event-ID": "0"}
    await _foreign_connection(world, lambda http, headers: http.get(world.url, headers={**more, **headers}))


async def test_session_streams_of_another_users_connection(world: World) -> None:
    more = {**STREAM, "Acp-Session-Id": world.session}
    await _foreign_connection(world, lambda http, headers: http.get(world.url, headers={**more, **headers}))


async def test_another_users_connection_is_not_deleted(world: World) -> None:
    await _foreign_connection(world, lambda http, headers: http.delete(world.url, headers=headers))


async def test_answers_on_another_users_connection(world: World) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "result": {"outcome": {"outcome": "selected", "optionId": "allow_always"}}}
    await _foreign_connection(world, lambda http, headers: http.post(world.url, json=message, headers=headers))


async def test_a_stream_of_another_users_session_stays_empty(world: World) -> None:
    async with over_http(world.server, world.bob_token) as (bob, transport):
        await bob.initialize()
        await transport.stream(world.session)
        async with over_websocket(world.server, world.ann_token) as ann:
            await ann.initialize()
            await ann.load(world.session, world.ann_home)
            await ann.prompt(world.session, "/run print(secret)")
        await bob.call("session/list", {})
        assert SECRET not in str(bob.received)
        assert world.session not in transport.positions


async def test_another_users_prompt_is_not_cancelled(world: World) -> None:
    async with (
        over_websocket(world.server, world.ann_token) as ann,
        over_websocket(world.server, world.bob_token) as bob,
    ):
        await ann.initialize()
        await bob.initialize()
        await ann.load(world.session, world.ann_home)
        prompt = await ann.begin_prompt(world.session, "/run import time; time.sleep(0.5); print('whole')")
        for number in range(10):
            await bob.notify("$/cancel_request", {"requestId": number})
        await bob.notify("session/cancel", {"sessionId": world.session})
        assert (await ann.response(prompt))["result"]["stopReason"] == "end_turn"
        assert "whole" in str(ann.updates()[-6:])


async def test_lists_have_the_users_own_sessions_alone(world: World) -> None:
    async with over_websocket(world.server, world.bob_token) as bob:
        await bob.initialize()
        for params in ({}, {"cwd": str(world.ann_home)}):
            listed = (await bob.call("session/list", params))["sessions"]
            assert world.session not in [row["sessionId"] for row in listed]
        cursor = "WzFlOTksInoiXQ=="  # the position after everything
        assert world.session not in str(await bob.call("session/list", {"cursor": cursor}))


@pytest.mark.parametrize("place", ["cwd", "additionalDirectories"])
async def test_another_users_directory_is_not_opened(world: World, place: str) -> None:
    async with over_websocket(world.server, world.bob_token) as bob:
        await bob.initialize()
        params: dict[str, Any] = {"cwd": str(world.bob_home), "mcpServers": []}
        params[place] = str(world.ann_home) if place == "cwd" else [str(world.ann_home)]
        response = await bob.response(await bob.begin("session/new", params))
        if "result" in response:
            session = response["result"]["sessionId"]
            await bob.response(await bob.begin_prompt(session, f"/run view({str(world.ann_home / 'secret.txt')!r})"))
        assert SECRET not in str(bob.received)


@pytest.mark.parametrize("kind", ["resource_link", "mention"])
async def test_another_users_file_is_not_attached(world: World, kind: str) -> None:
    path = world.ann_home / "secret.txt"
    blocks: dict[str, dict[str, Any]] = {
        "resource_link": {"type": "resource_link", "name": "secret.txt", "uri": path.as_uri()},
        "mention": {"type": "text", "text": f"@{path}"},
    }
    async with over_websocket(world.server, world.bob_token) as bob:
        session = await bob.open(world.bob_home)
        await bob.prompt(session, "/context", blocks[kind])
        assert SECRET not in str(bob.received)


# --- by other means ---------------------------------------------------------------------------------------------------

FORGED = {
    "the digest as a token": lambda world: _digest(world, 1),
    "the id of a token": lambda world: _lines(world)[1].split()[0],
    "the user's name": lambda world: "ann",
    "most of a token": lambda world: world.ann_token[:-1],
    "a longer token": lambda world: world.ann_token + "A",
    "another case": lambda world: world.ann_token.swapcase(),
    "both tokens": lambda world: f"{world.bob_token},{world.ann_token}",
    "a dash": lambda world: "-",
}


def _lines(world: World) -> list[str]:
    return (world.state / "acp-tokens").read_text().splitlines()


def _digest(world: World, number: int) -> str:
    return _lines(world)[number].split()[3]


@pytest.mark.parametrize("forged", FORGED)
async def test_forged_tokens(world: World, forged: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    async with httpx.AsyncClient(trust_env=False) as http:
        response = await http.post(world.url, json=message, headers=bearer(FORGED[forged](world)))
        assert response.status_code == 401


async def test_a_cookie_or_an_address_is_no_token(world: World) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    async with httpx.AsyncClient(trust_env=False) as http:
        first = await http.post(world.url, json=message, headers=bearer(world.ann_token))
        cookie = {"Cookie": first.headers["Set-Cookie"].partition(";")[0]}
        assert world.ann_token not in str(first.headers)
        assert (await http.post(world.url, json=message, headers=cookie)).status_code == 401
        for query in (f"?token={world.ann_token}", f"?access_token={world.ann_token}"):
            assert (await http.post(world.url + query, json=message)).status_code == 401
        twice = [("Authorization", f"Bearer {token}") for token in (world.bob_token, world.ann_token)]
        assert (await http.post(world.url, json=message, headers=twice)).status_code == 401


@pytest.mark.parametrize("author", ["user", "model"])
async def test_statements_reach_nothing_of_another_user(world: World, author: str) -> None:
    async with over_websocket(world.server, world.bob_token) as bob:
        session = await bob.open(world.bob_home)
        if author == "user":
            await bob.prompt(session, f"/run {world.probe}", seconds=60)
        else:
            await bob.prompt(session, "probe", seconds=60)
        await bob.prompt(session, "/run open('found.txt', 'w').write(text)", seconds=60)
        found = await anyio.Path(world.bob_home / "found.txt").read_text()
        for name in ("file", "listing", "sessions", "state", "tokens", "write", "plant", "become"):
            assert f"\n{name}: no, " in f"\n{found}", (name, found[:3000])
        assert "KILLABLE" not in found
        for secret in (SECRET, PASSWORD, world.ann_token, world.bob_token, _digest(world, 1)):
            assert secret not in found
    await _still_there(world)


def test_each_host_runs_under_its_own_account(world: World) -> None:
    children = Path(f"/proc/{world.server.process.pid}/task/{world.server.process.pid}/children").read_text().split()
    owners = {Path(f"/proc/{pid}").stat().st_uid for pid in children}
    assert owners == {pwd.getpwnam(ANN).pw_uid, pwd.getpwnam(BOB).pw_uid}
    for pid in children:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        assert PASSWORD.encode() not in command
    for name, account in (("ann", ANN), ("bob", BOB)):
        status = (world.state / "users" / name).stat()
        assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (pwd.getpwnam(account).pw_uid, 0o700)


async def test_no_host_is_readable_for_its_account_while_it_starts() -> None:
    with _place() as base:
        home, token = _owned(base / BOB, BOB), add_token(base / "served", BOB, BOB)
        with serving(base / "served", environ={"PGPASSWORD": PASSWORD}, prefix=python_for_all()) as server:
            seen: list[tuple[int, int]] = []
            over = threading.Event()
            watching = threading.Thread(target=_watch_hosts, args=(server.process.pid, seen, over))
            watching.start()
            try:
                async with over_websocket(server, token) as client:
                    await client.open(home)
            finally:
                over.set()
                watching.join()
    account = pwd.getpwnam(BOB).pw_uid
    assert {owner for uid, owner in seen if uid == account} == {0}


def _watch_hosts(server: int, seen: list[tuple[int, int]], over: threading.Event) -> None:
    """Note the account of each child of the server, and then the owner of its variables: root's are closed to it."""
    children = Path(f"/proc/{server}/task/{server}/children")
    while not over.is_set():
        for pid in children.read_text().split():
            with suppress(OSError, StopIteration):
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                uid = next(int(line.split()[2]) for line in lines if line.startswith("Uid:"))
                seen.append((uid, Path(f"/proc/{pid}/environ").stat().st_uid))


async def test_users_of_one_database_see_their_own_sessions() -> None:
    with _place() as base, running("18") as database:
        homes = {name: _owned(base / name, name) for name in (ANN, BOB)}
        tokens = {name: add_token(base / "served", name, name) for name in (ANN, BOB)}
        database.directory.chmod(0o711)
        environ = {"REWINDOW_STORE": database.new_database()}
        with serving(base / "served", environ=environ, prefix=python_for_all()) as server:
            await _use_database(server, tokens, homes, str(database.directory))


async def _use_database(server: Server, tokens: Mapping[str, str], homes: Mapping[str, Path], address: str) -> None:
    sessions: dict[str, str] = {}
    for name, token in tokens.items():
        async with over_websocket(server, token) as client:
            sessions[name] = await client.open(homes[name])
            await client.prompt(sessions[name], "secret = 4711")
    for name, other in ((ANN, BOB), (BOB, ANN)):
        async with over_websocket(server, tokens[name]) as client:
            await client.initialize()
            listed = (await client.call("session/list", {}))["sessions"]
            assert [row["sessionId"] for row in listed] == [sessions[name]]
            params = {"sessionId": sessions[other], "cwd": str(homes[name]), "mcpServers": []}
            assert (await client.error("session/load", params))["code"] == -32002
            await client.load(sessions[name], homes[name])
            await client.prompt(sessions[name], "import os; str(dict(os.environ)), open('/proc/self/environ').read()")
            assert address not in str(client.received)


async def test_a_flood_of_one_user_leaves_the_other_served(world: World) -> None:
    async with httpx.AsyncClient(headers=bearer(world.bob_token), trust_env=False, timeout=60) as http:
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
        opened = [await http.post(world.url, json=message) for _ in range(70)]
        assert {response.status_code for response in opened} == {200, 429}
        await _still_there(world)
        for response in opened:
            if response.status_code == 200:
                headers = {"Acp-Connection-Id": response.headers["Acp-Connection-Id"]}
                assert (await http.delete(world.url, headers=headers)).status_code == 202
