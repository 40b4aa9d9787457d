"""What a process asks of the system about itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
TAKES_PRECEDENCE: Final = """
import os
from engine.runtime.worker.processes.system import take_precedence

{}
before = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
take_precedence()
assert (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)) == before, before
"""
CHOSEN: Final = {"a policy": "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))", "a number": "os.nice(1)"}


@pytest.mark.parametrize("choice", CHOSEN.values(), ids=CHOSEN)
def test_a_precedence_that_somebody_has_chosen_stays(choice: str) -> None:
    # In a session of its own, because the precedence of one would be changed with it.
    subprocess.run(
        [sys.executable, "-c", TAKES_PRECEDENCE.format(choice)],
        cwd=ROOT,
        start_new_session=True,
        timeout=60,
        check=True,
    )
