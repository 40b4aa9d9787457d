"""The tests that `make test` leaves to `make check`, so that it takes about a minute: the list `tests/long_tests.txt`.

`make long-tests` times all tests that are not slow, and writes the list again. A line is a test function; all its cases
are left out together. The functions that take longest are listed first in the measurement, until the rest takes
SHARE of the time. Functions in WHOLE are never listed, so `make test` always runs each program as a whole.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

ROOT: Final = Path(__file__).resolve().parents[2]
LIST: Final = ROOT / "tests/long_tests.txt"
SHARE: Final = 0.13
WHOLE: Final = frozenset({
    "tests/e2e/test_whole_task.py::test_whole_task",
    "tests/e2e/test_sessions.py::test_load_after_a_kill_shows_everything_and_restores_variables",
    "tests/e2e/test_mcp.py::test_a_client_views_a_file_in_a_process",
    "tests/e2e/test_run.py::test_what_is_typed_runs_and_leaving_closes_everything",
    "tests/mcp_tools/test_http.py::test_token_is_required",
    "tests/faults/test_sample.py::test_episode_with_faults_and_power_losses",
})  # fmt: skip


@cache
def listed() -> frozenset[str]:
    """Return the functions in the list, as `tests/ROOM/test_x.py::test_name`."""
    return frozenset(LIST.read_text(encoding="utf-8").split())


def is_long(node_id: str) -> bool:
    return node_id.partition("[")[0] in listed()


def longest(report: Path, share: float = SHARE) -> list[str]:
    """Return the functions to list, sorted, from a JUnit report."""
    seconds = Counter[str]()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = re.sub(r"\[.*", "", case.attrib["name"], flags=re.DOTALL)
        seconds[f"{case.attrib['classname'].replace('.', '/')}.py::{name}"] += float(case.attrib["time"])
    rest, found = sum(seconds.values()), list[str]()
    aim = rest * share
    for function, time in seconds.most_common():
        if rest <= aim:
            break
        if function not in WHOLE:
            found.append(function)
            rest -= time
    return sorted(found)


if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in longest(Path(sys.argv[1]))), encoding="utf-8")
