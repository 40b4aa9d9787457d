"""What an unprivileged process gives up without a domain of its own: real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.runtime.sandbox import entering

ROOT = Path(__file__).parents[4]
SCRIPT = """
import os
from engine.runtime.sandbox import entering
from engine.runtime.system import kernel

NOBODY = 65534
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
for domain in (False, True):
    child = os.fork()
    if child == 0:
        entering.give_up_reading_others(domain=domain)
        try:
            open(f"/proc/{os.getppid()}/environ", "rb").close()
            found = "readable"
        except PermissionError:
            found = "hidden"
        print(found, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not entering.hides_processes(), reason="the kernel has no Landlock, or an old one")
def test_a_domain_hides_the_users_other_processes() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.stderr == ""
    assert run.stdout.split() == ["readable", "hidden"]
