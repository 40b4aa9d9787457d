"""The hardened process: what it reads of its environment stays, what others could read of it is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SECONDS = 30

PROGRAM = f"""
import ctypes, json, os, subprocess, sys
sys.path.insert(0, {str(ROOT)!r})
from engine.runtime.hardening import harden_process
harden_process()
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
os.environ["LATER"] = "set"
print(json.dumps({{
    "python": os.environ["A_KEY"],
    "c": [libc.getenv(name).decode() for name in (b"A_KEY", b"SSL_CERT_FILE", b"LATER")],
    "child": subprocess.run(["sh", "-c", "echo $A_KEY $SSL_CERT_FILE"], capture_output=True, text=True).stdout,
    "given": subprocess.run(["env"], env={{"B": "2"}}, capture_output=True, text=True).stdout,
    "dumpable": libc.prctl(3),
}}), flush=True)
sys.stdin.read()
"""


def test_a_hardened_process_keeps_its_environment_and_shows_it_to_nobody() -> None:
    variables = {"PATH": os.environ["PATH"], "A_KEY": "planted-é-value", "SSL_CERT_FILE": "/certs.pem", "EMPTY": ""}
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with program:
        assert program.stdout
        said = json.loads(program.stdout.readline())
        # By root, who may read it whatever the process is.
        shown = Path(f"/proc/{program.pid}/environ").read_bytes() if os.geteuid() == 0 else b""
        assert program.stdin
        program.stdin.close()
        assert program.wait(SECONDS) == 0
    assert said == {
        "python": "planted-é-value",
        "c": ["planted-é-value", "/certs.pem", "set"],
        "child": "planted-é-value /certs.pem\n",
        "given": "B=2\n",
        "dumpable": 0,
    }
    assert shown.strip(b"\0") == b""
