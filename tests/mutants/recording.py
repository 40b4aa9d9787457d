"""Which tests run which lines: a plugin of pytest that records them, and the choice of tests for a place.

The plugin records the modules of one room in the process of the tests, on all threads. It is loaded by
`python -m tests.mutants` alone, in a copy of the tree.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.mutants.places import Place

MODULES: Final = "REWINDOW_RECORDED_MODULES"
RECORD: Final = "REWINDOW_RECORD"
"""Variables with the modules and with the file for the record."""

_MOST_SECONDS: Final = 30.0
_MOST_TESTS: Final = 150
_SLOW: Final = 1.0


class Recorded(msgspec.Struct, frozen=True):
    """What the tests of a room did on the unchanged tree."""

    seconds: dict[str, float] = {}
    """Of each test that passed, in the order of the run."""
    lines: dict[str, dict[int, list[str]]] = {}
    """By module and line, the tests that ran it; none if it ran during an import alone."""
    files: dict[str, str] = {}
    """The digests of the test files."""

    def updated(self, new: Recorded, files: dict[str, str]) -> Recorded:
        """Return the recording with that of changed test files in it."""
        same = {path for path, digest in files.items() if self.files.get(path) == digest}
        old = {test: seconds for test, seconds in self.seconds.items() if _file_of(test) in same}
        order = list(files)
        seconds = dict(sorted((old | new.seconds).items(), key=lambda item: order.index(_file_of(item[0]))))
        lines = {
            module: {
                line: [
                    *(test for test in self.lines.get(module, {}).get(line, []) if test in old),
                    *added.get(line, []),
                ]
                for line in {**self.lines.get(module, {}), **added}
            }
            for module, added in new.lines.items()
        }
        return Recorded(seconds, lines, files)

    def tests_of(self, module: str, place: Place) -> list[str]:
        """Return the tests that run the place, near and quick ones first, up to half a minute of them.

        If none does, perhaps because an import runs it, these are the tests that run any line of the module.
        """
        lines = self.lines.get(module, {})
        here = [lines[line] for line in range(place.first_line, place.last_line + 1) if line in lines]
        found = {test for tests in here for test in tests}
        if not found:
            found = {test for tests in lines.values() for test in tests}
        return list(self._quick(found))

    def _quick(self, found: set[str]) -> Iterator[str]:
        """Yield tests, one of each function before further parameters."""
        variants = Counter[str]()
        order: dict[str, tuple[int, bool, int]] = {}
        for number, (test, seconds) in enumerate(self.seconds.items()):
            if test in found:
                function = test.partition("[")[0]
                order[test] = (variants[function], seconds > _SLOW, number)
                variants[function] += 1
        left = _MOST_SECONDS
        for test in sorted(order, key=order.__getitem__)[:_MOST_TESTS]:
            left -= self.seconds[test]
            if left < 0:
                return
            yield test


def _file_of(test: str) -> str:
    return test.partition("::")[0]


class _Recorder:
    """Switches the context of the measurement at each test."""

    def __init__(self, modules: list[str]) -> None:
        import coverage  # noqa: PLC0415 - a tool that the other tests do not need

        paths = [str(Path(module).resolve()) for module in modules]
        self._modules = dict(zip(paths, modules, strict=True))
        self._coverage = coverage.Coverage(data_file=None, include=paths, messages=False)
        self._coverage.start()
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        result = yield
        self._coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        lines = {
            module: {
                str(line): sorted({test for test in tests if test} - self._failed)
                for line, tests in data.contexts_by_lineno(path).items()
            }
            for path, module in self._modules.items()
        }
        seconds = {test: spent for test, spent in self._seconds.items() if test not in self._failed}
        Path(os.environ[RECORD]).write_text(json.dumps({"seconds": seconds, "lines": lines}), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    if modules := os.environ.get(MODULES):
        config.pluginmanager.register(_Recorder(modules.split(os.pathsep)))
