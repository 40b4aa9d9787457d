"""A program of a statement may take descriptors out of processes that it may trace: none of them is the agent's."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.agents import Agent
from tests.support.scripts import scripted, update_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pidfd_getfd is a system call of Linux")
THIEF = """
import ctypes, os
libc, found = ctypes.CDLL(None, use_errno=True), set()
for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
    for number in range(3):
        try:
            taken = libc.syscall(438, os.pidfd_open(pid), number, 0)
            found.add(os.readlink(f"/proc/self/fd/{taken}"))
        except OSError:
            pass
print("TAKEN", sorted(found))
"""


def test_a_command_takes_no_stream_of_the_agent_from_the_process_above_it(tmp_path: Path) -> None:
    (tmp_path / "thief.py").write_text(THIEF)
    command = f"print(bash('{sys.executable} thief.py'))"
    model = scripted(tmp_path, {"statement": command}, {"text": "Done."})
    with Agent(tmp_path / "state", "--model", model, permission="allow_once") as agent:
        session = agent.open(tmp_path)
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        assert agent.prompt(session, "Go.") == "end_turn"
        shown = json.dumps([update_in(message) for message in agent.received])
        assert "TAKEN [" in shown
        assert os.devnull in shown.partition("TAKEN [")[2]
        for stream in (agent.process.stdin, agent.process.stdout, agent.process.stderr):
            assert stream is not None
            assert f"pipe:[{os.fstat(stream.fileno()).st_ino}]" not in shown
