"""Secrets of many kinds are planted, statements do with them whatever leads to the outside, and nothing shows there.

Everything that leaves the agent is kept: each message, standard error, the database with its write-ahead log, the
contents it refers to, exports, and what the commands print. No form of a secret may be there, nor any piece of eight
characters of one. Secrets that are words of ours are looked for in texts alone, because as kinds, statuses and keys
these words stay. A sample of the kinds runs always, all of them with cuts at many places in the slow tests.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sqlite3
import subprocess
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests.e2e.test_process_secrets import USERS
from tests.support.agents import Agent
from tests.support.scripts import last_value
from tests.support.transcripts import asks_permission

PIECE: Final = 8


def _noise(size: int) -> str:
    """Printable characters in which no eight of them come twice."""
    blocks = (hashlib.blake2b(str(number).encode()).digest() for number in range(size // 64 + 1))
    return "".join(chr(33 + byte % 94) for block in blocks for byte in block)[:size]


PLANTED: Final = {
    "short": ("SHORT_KEY", "k3y-Ab9z"),
    "long": ("LONG_TOKEN", _noise(5_000)),
    "lines": (
        "SIGNING_SECRET",
        "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----\n",
    ),
    "quotes": ("MY_PASSWORD", "it's \"quoted\" and 'quoted' again"),
    "one quote": ("SSH_PASSPHRASE", "o'reilly-passphrase"),
    "backslashes": ("WIN_PASS", "C:\\new\\table\\x41\\u0041\\end"),
    "foreign": ("DB_PWD", "pässwörd-für-мне-秘密🔑"),
    "url": ("DATABASE_URL", "postgres://me:p%40ss%2Fw0rd-l0ng@db.example/x"),
    "statement": ("SECRET_KEY", "statement"),
    "completed": ("API_TOKEN", "completed"),
    "tool_call_id": ("MY_SECRET", "tool_call_id"),
    "json": ("X_TOKEN", '"kind":"'),
    "object": ("Y_CREDENTIALS", '{"robot": "r2-d2", "pin": [1977]}'),
}
"""The variable that has it, and its value."""
ARMOUR: Final = ("-----BEGIN KEY-----", "-----END KEY-----")
WORDS: Final = ("statement", "completed", "tool_call_id", "json")
"""The kinds that are words of ours."""
SAMPLE: Final = ("quotes", "completed")


def secret_of(kind: str) -> str:
    """What of the variable's value is secret."""
    return "p%40ss%2Fw0rd-l0ng" if kind == "url" else PLANTED[kind][1]


def planted(kinds: Iterable[str]) -> dict[str, str]:
    return dict(PLANTED[kind] for kind in kinds)


# --- what statements do with one --------------------------------------------------------------------------------------

STATEMENTS: Final = (
    "key = open(FILE, newline='').read()",
    "print(key); key",
    "import json, base64, urllib.parse; print(repr(key), [key], json.dumps(key), json.dumps(repr(key)), ascii(key))",
    "[[key], {'k': (key, {key})}, key.encode()]",
    "for before in range(3): print(base64.b64encode(b'u' * before + key.encode()).decode())",
    "print(urllib.parse.quote(key), urllib.parse.quote(key, safe=''), urllib.parse.quote_plus(key))",
    "raise ValueError(key)",
    "raise KeyError(key) from RuntimeError('was ' + key)",
    "same = read(FILE); same == key",
    "same",
    "read(key)",
    "ls(key)",
    "handle = view(FILE).Run(freq='Sync')",
    "handle.SetTokens(40); show(handle)",
    "handle.SetPos(key)",
    "open(FILE, 'a', newline='').write('and ' + key)",
    "/tick",
    "open(FILE, 'w', newline='').write(key); None",
    "import os\nfor byte in key.encode(): os.write(1, bytes([byte]))",
    "import subprocess; subprocess.run(['cat', FILE]); None",
    "class Shown:\n    def __repr__(self): return 'Shown ' + key\nshown = Shown(); shown",
    "text = view(text=key, title=key)",
    "open('key.bin', 'wb').write(bytes(5) + key.encode() + bytes(9)); rows = view('key.bin'); rows",
    "/views",
    "/context",
    "/timeline",
    "/timeline 2",
    "/compact",
)
CUTS: Final = (
    "name_AT = '.' * (78 - AT % 78) + key; pair_AT = [name_AT, {'k': name_AT}]; raw_AT = name_AT.encode()",
    "'.' * (8192 - AT) + key + '.' * 9000",
    "'.' * 9000 + key + '.' * (8192 - AT)",
    "raise ValueError('.' * (2048 - AT) + key + '.' * 3000)",
    "raise ValueError('.' * 3000 + key + '.' * (2048 - AT))",
    "print('.' * (65536 - AT) + key + '.' * 100)",
    "open('cut.txt', 'w', newline='').write('.' * (2000 - AT) + key + '.' * 3000); read('cut.txt')",
    "open('line.txt', 'w').write('.' * (4000 - AT) + key.replace('\\n', ' ') + '.' * 9000)",
    "cut = view('line.txt', pos='1:4000')",
)
"""What cuts a text near the secret; AT is how much of it is before the cut."""


def statements(file: Path, secret: str, offsets: Sequence[int]) -> Iterator[str]:
    for source in STATEMENTS:
        yield source.replace("FILE", repr(str(file)))
    for offset in offsets:
        for source in CUTS:
            yield source.replace("AT", str(offset))
    yield f"typed = {secret!r}"
    yield f"# {secret!r}\ntyped == key"


# --- where they may show ----------------------------------------------------------------------------------------------

STRUCTURE: Final = frozenset((
    "jsonrpc", "id", "method", "sessionId", "toolCallId", "messageId", "type", "kind", "status", "sessionUpdate",
    "stopReason", "configOptions", "availableCommands", "cwd", "statement_kind", "operation", "tool", "grade", "check",
    "reason", "scope",
))  # fmt: skip
"""Keys of messages, events and reports whose values are words and identifiers."""


def texts_of(value: Any) -> Iterator[str]:
    """The texts of a JSON value: all strings but keys and what stands under a key of the structure."""
    match value:
        case str():
            yield value
        case dict():
            for key, item in value.items():
                if key not in STRUCTURE and not key.endswith(("_id", "digest")):
                    yield from texts_of(item)
        case list():
            for item in value:
                yield from texts_of(item)
        case _:
            pass


def forms_of(secret: str) -> Iterator[tuple[str, int]]:
    """How a secret may look, and how long a piece of that is one of eight characters at least."""
    yield secret, PIECE
    for text in {repr(secret)[1:-1], ascii(secret)[1:-1], json.dumps(secret)[1:-1], repr(secret.encode())[2:-1]}:
        if text != secret:
            yield text, 3 * PIECE
    for before in range(3):
        yield base64.b64encode(b"u" * before + secret.encode()).decode()[before + 2 : -4], PIECE + 4
    for text in {quote(secret, safe=safe) for safe in ("", "/")} - {secret}:
        yield text, 3 * PIECE


def found(kind: str, texts: Iterable[str]) -> set[str]:
    """What can be read of a secret: the whole of one that is a word of ours, pieces of any other."""
    whole = "\n".join(dict.fromkeys(texts))
    shown: set[str] = set()
    for form, length in forms_of(secret_of(kind)):
        size = len(form) if kind in WORDS else length
        pieces = {form[at : at + size] for at in range(len(form) - size + 1)}
        if len(pieces) < 100:
            shown.update(piece for piece in pieces if len(piece) >= PIECE and piece in whole)
        else:
            shown |= pieces & {whole[at : at + size] for at in range(len(whole) - size + 1)}
    # The armour of a key in PEM is the same for all, so it is no secret where a line stands by itself.
    return {piece for piece in shown if not any(piece.strip("\n") in line for line in ARMOUR)}


def command(state: Path, env: Mapping[str, str], *arguments: str) -> bytes:
    done = subprocess.run(
        [str(Agent.command().parent / "rewindow"), *arguments],
        env={**os.environ, "REWINDOW_STATE_DIR": str(state), **env},
        capture_output=True,
        timeout=60,
    )
    return done.stdout + done.stderr


def stored(state: Path) -> Iterator[str]:
    """The contents of a database that are compressed, and each event."""
    with closing(sqlite3.connect(f"file:{state / 'sessions.db'}?mode=ro", uri=True)) as connection:
        for (data,) in connection.execute("SELECT data FROM blobs"):
            yield zlib.decompress(data).decode("utf-8", "replace")
        for (event,) in connection.execute("SELECT json FROM events"):
            yield from texts_of(json.loads(event))
        for (title,) in connection.execute("SELECT title FROM sessions WHERE title IS NOT NULL"):
            yield title


def files(state: Path) -> Iterator[str]:
    """The bytes of the database, and of its log where that is not merged yet."""
    for path in sorted(state.rglob("*")):
        if path.is_file():
            yield path.read_bytes().decode("latin-1")


def printed(state: Path, env: Mapping[str, str], session: str) -> Iterator[str]:
    """What the commands print of a session."""
    for arguments in (("sessions",), ("show", session), ("show", session, "--cycles"), ("doctor",)):
        yield command(state, env, *arguments).decode()
    for arguments in (("sessions", "--json"), ("show", session, "--events"), ("show", session, "--cycles", "--json")):
        for line in command(state, env, *arguments).splitlines():
            yield from texts_of(json.loads(line))
    for line in command(state, env, "export", session).splitlines():
        value = json.loads(line)
        yield from [base64.b64decode(value["data"]).decode("utf-8", "replace")] if "blob" in value else texts_of(value)


def received(agent: Agent) -> Iterator[str]:
    for message in agent.received:
        yield from texts_of(message)


# --- the tests --------------------------------------------------------------------------------------------------------


def check(kinds: Sequence[str], places: Mapping[str, Sequence[str]]) -> None:
    shown = {
        (kind, place): sorted(pieces)[:5]
        for kind in kinds
        for place, texts in places.items()
        if not (place == "files" and kind in WORDS) and (pieces := found(kind, texts))
    }
    assert shown == {}


def direct(tmp_path: Path, kinds: Sequence[str], offsets: Sequence[int], *, thorough: bool) -> None:
    """A session in which what is typed runs. Thorough: loaded again, and looked at with the commands."""
    state, env = tmp_path / "state", planted(kinds)
    places: dict[str, list[str]] = {}
    with Agent(state, env=env) as agent:
        session = agent.open(tmp_path)
        for kind in kinds:
            act(agent, session, tmp_path / f"{kind.replace(' ', '-')}.txt", secret_of(kind), offsets)
        agent.call("session/list", {})
        places["files"] = list(files(state))
    places |= {"messages": list(received(agent)), "stderr": [agent.stderr.decode()], "stored": list(stored(state))}
    if thorough:
        with Agent(state, env=env) as again:
            again.initialize()
            again.call("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
            assert again.prompt(session, "'key' in globals(), 'typed' in globals()") == "end_turn"
        places |= {
            "loaded": [*received(again), again.stderr.decode(), *stored(state)],
            "printed": list(printed(state, env, session)),
        }
    assert all(texts for place, texts in places.items() if place != "stderr")
    check(kinds, places)


def act(agent: Agent, session: str, file: Path, secret: str, offsets: Sequence[int]) -> None:
    """Whatever leads outside, with one secret."""
    file.write_text(secret, newline="")
    for source in statements(file, secret, offsets):
        assert agent.prompt(session, source) == "end_turn", source
    assert last_value(agent) == "True", secret
    link = {"type": "resource_link", "uri": f"file:///{quote(secret)}", "name": secret}
    agent.prompt(session, f"# {secret!r}", link)
    agent.error("session/new", {"cwd": f"/{secret}", "mcpServers": []})
    agent.error("session/set_mode", {"sessionId": session, "modeId": secret})


@pytest.mark.slow
def test_nothing_of_a_secret_leaves_whatever_statements_do_with_it(tmp_path: Path) -> None:
    direct(tmp_path, SAMPLE, (), thorough=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLANTED)
def test_no_kind_of_secret_leaks_wherever_text_is_cut(tmp_path: Path, kind: str) -> None:
    length = len(secret_of(kind))
    offsets = range(0, min(length, 40) + 4, 7) if length < 1_000 else range(0, length, 1_201)
    direct(tmp_path, [kind], offsets, thorough=True)


@pytest.mark.slow
def test_nothing_leaks_with_every_kind_of_secret_planted(tmp_path: Path) -> None:
    direct(tmp_path, tuple(PLANTED), (7,), thorough=False)


@pytest.mark.parametrize(
    "kinds", [("quotes", "tool_call_id"), pytest.param(tuple(PLANTED), marks=pytest.mark.slow)], ids=["two", "all"]
)
def test_secret_of_a_model_is_masked_and_its_statement_runs(tmp_path: Path, kinds: Sequence[str]) -> None:
    state, env, script = tmp_path / "state", planted(kinds), tmp_path / "replies.jsonl"
    script.write_text("\n".join(map(json.dumps, replies(kinds))))
    asking = {**env, "REWINDOW_SANDBOX": "off"}  # so that each statement is shown in a question
    with Agent(state, "--model", f"scripted:{script}", env=asking) as agent:
        session = agent.open(tmp_path)
        for kind in kinds:
            assert agent.prompt(session, f"What about {secret_of(kind)}?") == "end_turn"
            assert last_value(agent) == str(len(secret_of(kind)))
        at_rest = list(files(state))
    assert len(list(filter(asks_permission, agent.received))) == len(kinds)
    messages = [*received(agent), agent.stderr.decode()]
    check(kinds, {"messages": messages, "files": at_rest, "stored": list(stored(state))})


def replies(kinds: Iterable[str]) -> Iterator[dict[str, object]]:
    """For each secret a reply that says and thinks it in pieces and has it in its statement, and one that says it."""
    for kind in kinds:
        secret = secret_of(kind)
        source = f"# tidy up {secret!r}\ntyped = {secret!r}\nlen(typed)"
        yield {"text": f"It is {secret}.", "reasoning": f"Is it {secret}?", "chunk": 3, "statement": source}
        yield {"text": f"It was {secret}", "chunk": 5}


@pytest.mark.slow
@pytest.mark.parametrize("started_by", USERS, ids=lambda words: "nobody" if words else "root")
def test_a_statement_finds_no_secret_in_any_process(tmp_path: Path, started_by: Sequence[str]) -> None:
    """In the environments of all processes, and in the memory of those above the worker."""
    tmp_path.chmod(0o777)
    kinds = [kind for kind in PLANTED if kind not in WORDS]
    wanted = tmp_path / "wanted.json"
    wanted.write_text(json.dumps([base64.b85encode(secret_of(kind).encode()).decode() for kind in kinds]))
    search = """
import base64, json, os
values = [base64.b85decode(each) for each in json.load(open(WANTED))]
def read(path):
    try:
        return open(path, "rb").read()
    except OSError:
        return b""
pids = [name for name in os.listdir("/proc") if name.isdigit()]
seen = {(pid, place) for pid in pids for place in ("environ", "cmdline") for value in values
        if pid != str(os.getpid()) and value in read(f"/proc/{pid}/{place}")}
def opened(pid):
    try:
        return open(f"/proc/{pid}/mem", "rb").close() is None
    except OSError:
        return False
sorted(seen), opened(os.getppid()), [value in repr(dict(os.environ)).encode() for value in values].count(True)
""".replace("WANTED", repr(str(wanted)))
    with Agent(tmp_path / "state", env=planted(kinds), started_by=started_by) as agent:
        session = agent.open(tmp_path)
        assert agent.prompt(session, search) == "end_turn"
        assert last_value(agent) == "([], False, 0)"
