"""What each of our processes holds, seen from outside: descriptors, keys, rights. A new kind of process needs a row."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import psutil
import pytest

from tests.support import mcp_server
from tests.support.agents import Agent
from tests.support.pictures import image_block, png
from tests.support.scripts import scripted

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root sees into all of our processes, in Linux's /proc"
)
KEY: Final = b"sk-planted-0123456789abcdef"
TOKEN: Final = b"of-the-server-0123456789abcdef"
FEW_CAPABILITIES: Final = 0xF
"""Of root in the sandbox: rights over files' owners and modes, which the mounts bound."""


class Row(NamedTuple):
    """What a kind of process may hold."""

    descriptors: frozenset[str]
    """Kinds; `log` is the agent's standard error."""
    confined: bool
    secrets: frozenset[bytes] = frozenset()
    """In its memory; none is in the environment of a process of ours."""


def row(descriptors: str, *, confined: bool, secrets: tuple[bytes, ...] = ()) -> Row:
    return Row(frozenset(descriptors.split()), confined, frozenset(secrets))


ROWS: Final = {
    "zygote": row("null log socket eventpoll", confined=False),
    "decoder": row("null socket", confined=True),
    "keeper of a server": row("null socket", confined=False, secrets=(TOKEN,)),
    "server": row("pipe", confined=False, secrets=(TOKEN,)),
    "realm": row("null socket eventpoll /proc", confined=False),
    "worker": row("null pipe socket", confined=True),
    "copy of the worker": row("null socket", confined=True),
    "parser": row("null socket", confined=True),
    "keeper": row("null socket", confined=True),
    "program": row("null pipe memfd", confined=True),
}


def kinds(process: psutil.Process, log: str) -> Iterator[str]:
    folder = Path(f"/proc/{process.pid}/fd")
    for name in os.listdir(folder):
        target = os.readlink(folder / name)
        simple = re.sub(r"^(anon_inode:\[)?/?(dev/null|pipe|socket|eventpoll|memfd).*", r"\2", target)
        yield "log" if target == log else simple.removeprefix("dev/")


def remembered(process: psutil.Process) -> frozenset[bytes]:
    """The secrets in its writable memory."""
    found: set[bytes] = set()
    with open(f"/proc/{process.pid}/maps") as maps, open(f"/proc/{process.pid}/mem", "rb", 0) as memory:
        for line in maps:
            if line.split()[1].startswith("rw"):
                start, end = (int(part, 16) for part in line.split()[0].split("-"))
                memory.seek(start)
                block = memory.read(end - start) or b""
                found |= {secret for secret in (KEY, TOKEN) if secret in block}
    return frozenset(found)


def status(process: psutil.Process) -> dict[str, str]:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def roles(host: psutil.Process) -> Iterator[tuple[str, psutil.Process]]:
    """All processes below the host with their kinds, which follow from who started whom."""
    (zygote,) = host.children()
    yield "zygote", zygote
    pid_space = os.readlink(f"/proc/{zygote.pid}/ns/pid")
    for child in zygote.children():
        if os.readlink(f"/proc/{child.pid}/ns/pid") != pid_space:
            yield "realm", child
            yield from _below_realm(child)
        elif started := child.children(recursive=True):
            yield "keeper of a server", child
            yield from (("server", program) for program in started)
        else:
            yield "decoder", child


def _below_realm(realm: psutil.Process) -> Iterator[tuple[str, psutil.Process]]:
    for child in realm.children():
        started = child.children(recursive=True)
        programs = {program.name() for program in started}
        if started:
            yield "keeper" if "bash" in programs else "worker", child
        else:
            in_project = os.readlink(f"/proc/{child.pid}/cwd").endswith("project")
            yield "copy of the worker" if in_project else "parser", child
        yield from (("program", program) for program in started)


def test_each_process_holds_what_its_row_says(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("def f():\n    return 1\n")
    first = {"statement": "import subprocess\nprint(view('a.py', lod=1))\nchild = subprocess.Popen(['sleep', '600'])"}
    second = {"statement": "bash('sleep 600 & sleep 600 & echo ready; wait')"}
    model = scripted(tmp_path, first, second, {"text": "Done."})
    server = {
        "name": "test",
        "command": sys.executable,
        "args": ["-S", mcp_server.__file__],
        "env": [{"name": "SERVICE_TOKEN", "value": TOKEN.decode()}],
    }
    variables = {"OPENAI_API_KEY": KEY.decode()}
    with Agent(tmp_path / "state", "--model", model, env=variables) as agent:
        agent.initialize()
        session = agent.call("session/new", {"cwd": str(folder), "mcpServers": [server]})["sessionId"]
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        blocks = [{"type": "text", "text": "Go."}, image_block(png())]
        prompt = agent.begin("session/prompt", {"sessionId": session, "prompt": blocks})
        host = psutil.Process(agent.process.pid)
        agent.until(lambda message: "ready\\n" in json.dumps(message))
        assert agent.process.stderr is not None
        log = f"pipe:[{os.fstat(agent.process.stderr.fileno()).st_ino}]"
        seen: set[str] = set()
        for role, process in roles(host):
            seen.add(role)
            expected = ROWS[role]
            assert set(kinds(process, log)) <= expected.descriptors, role
            assert remembered(process) <= expected.secrets, role
            assert KEY not in Path(f"/proc/{process.pid}/environ").read_bytes(), role
            found = status(process)
            confined = found["Seccomp"] == "2" and found["NoNewPrivs"] == "1"
            assert confined == expected.confined, role
            assert not confined or int(found["CapEff"], 16) | FEW_CAPABILITIES == FEW_CAPABILITIES, role
        assert seen == set(ROWS)
        assert KEY in remembered(host)
        agent.notify("session/cancel", {"sessionId": session})
        agent.response(prompt)
