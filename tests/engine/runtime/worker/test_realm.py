"""The first process of a realm: what it must not change for the rest of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[4]
SECONDS: Final = 60.0
BEGIN: Final = """
import os, sys
from engine.runtime.system import kernel
from engine.runtime.worker.forking import realm
kernel.version = lambda: (6, 13)
print(realm.begin(os.open(os.devnull, os.O_RDONLY), lambda _socket, _outside: os._exit(0), apart=True).missing)
"""


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="others cannot change the machine's limit")
def test_kernel_with_one_limit_of_process_ids_gives_root_no_realm() -> None:
    done = subprocess.run([sys.executable, "-c", BEGIN], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    assert (done.stdout, done.stderr) == ("a limit of processes for root needs Linux 6.14\n", "")
