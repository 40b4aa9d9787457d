"""A key in the agent's environment is nowhere in the reach of statements: neither in ours nor in what started us."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.support import mcp_server
from tests.support.agents import Agent
from tests.support.scripts import last_value

KEY: Final = "sk-planted-0123456789abcdef"
NOBODY: Final = "65534"

SEARCH = """
import os, re
key = "sk-planted-" + "0123456789abcdef"
def holds(pid, what):
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return key.encode() in file.read()
    except OSError:
        return False
def opens(pid):
    try:
        open(f"/proc/{pid}/mem").close()
    except OSError:
        return False
    return True
def remembers(pid):
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in maps:
                start, end = (int(part, 16) for part in line.split()[0].split("-"))
                if line.split()[1].startswith("rw"):
                    memory.seek(start)
                    if key.encode() in (memory.read(end - start) or b""):
                        return True
    except OSError:
        pass
    return False
def parent(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])
above = [os.getppid()]
while parent(above[-1]):
    above.append(parent(above[-1]))
everyone = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
"""
FOUND = "sorted({pid for pid in everyone if holds(pid, 'environ')} | {pid for pid in above if remembers(pid)})"
BY_A_CHILD = """
import subprocess
subprocess.run(f"cat /proc/*/environ | tr '\\\\0' '\\\\n' | grep -c '={key}$'", shell=True, capture_output=True).stdout
"""

IN_OWN_MEMORY = r"""
import re
def found():
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if line.split()[1].startswith("rw"):
                memory.seek(start)
                yield from re.findall(rb"(?:sk|of)-planted-[0-9]{10}abcdef", memory.read(end - start) or b"")
mine = b"-".join((b"of", b"planted", b"0123456789abcdef"))
"""
"""What looks like the key (that of the test's own is the proof that the search works)."""

AS_NOBODY: Final = (
    *("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"),
    *(
        "--inh-caps",
        "-all,+dac_read_search",
        "--ambient-caps",
        "-all,+dac_read_search",
        "--bounding-set",
        "-sys_ptrace",
    ),
)
USERS: Final = ((), AS_NOBODY) if os.geteuid() == 0 and shutil.which("setpriv") else ((),)
STAYING: Final = ("sh", "-c", '"$@"; exit $?', "sh")
"""A program that has the key, starts the agent and lives on, as editors and shells do."""


def agent_of(folder: Path, user: Sequence[str], *arguments: str) -> Agent:
    (folder / "state").mkdir()
    if user:
        for path in (folder, folder / "state"):
            os.chown(path, int(NOBODY), int(NOBODY))
    variables = {"HOME": str(folder), "OPENAI_API_KEY": KEY}
    return Agent(folder / "state", *arguments, env=variables, started_by=(*user, *STAYING))


@pytest.mark.parametrize("user", [*(pytest.param(user, marks=pytest.mark.slow) for user in USERS[:-1]), USERS[-1]])
def test_no_statement_or_program_finds_keys_in_processes(tmp_path: Path, user: Sequence[str]) -> None:
    with agent_of(tmp_path, user) as agent:
        session = agent.open(tmp_path)
        agent.prompt(session, SEARCH)
        (host,) = psutil.Process(agent.process.pid).children()
        family = [host.pid, *(child.pid for child in host.children(recursive=True))]
        assert agent.prompt(session, f"set({family}) - {{os.getpid()}} <= set(everyone) and {FOUND}") == "end_turn"
        assert last_value(agent) == "[]"
        agent.prompt(session, BY_A_CHILD)
        assert last_value(agent) == repr(b"0\n")
        shown = Path(f"/proc/{host.pid}/environ").read_bytes() if os.geteuid() == 0 else b""
        assert shown.strip(b"\0") == b""


@pytest.mark.parametrize("user", [USERS[0], *(pytest.param(user, marks=pytest.mark.slow) for user in USERS[1:])])
def test_no_statement_remembers_what_a_server_was_given(tmp_path: Path, user: Sequence[str]) -> None:
    with agent_of(tmp_path, user) as agent:
        agent.initialize()
        given = {"command": sys.executable, "args": ["-S", mcp_server.__file__]}
        servers = [{"name": "test", **given, "env": [{"name": "SERVICE_TOKEN", "value": KEY}]}]
        session = agent.call("session/new", {"cwd": str(tmp_path), "mcpServers": servers})["sessionId"]
        agent.prompt(session, IN_OWN_MEMORY)
        assert agent.prompt(session, "sorted({each[:2] for each in found()})") == "end_turn"
        assert last_value(agent) == "[b'of']"


@pytest.mark.slow
def test_with_sudo_a_statement_reads_only_the_agent_parent(
    tmp_path: Path,
) -> None:
    with agent_of(tmp_path, USERS[-1], "--allow-sudo", "yes") as agent:
        session = agent.open(tmp_path)
        agent.prompt(session, SEARCH)
        agent.prompt(session, "assert 'NoNewPrivs:\\t0' in open('/proc/self/status').read()")
        assert agent.updates("tool_call_update")[-1]["status"] == "completed"
        assert agent.prompt(session, f"[pid for pid in above[:3] if pid in {FOUND}]") == "end_turn"
        assert last_value(agent) == str([agent.process.pid])
        agent.prompt(session, "[opens(pid) for pid in above[:3]]")
        assert last_value(agent) == "[False, False, True]"  # zygote, host, and the program that started it
