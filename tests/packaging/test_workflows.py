"""The workflow of a public host: its commands exist, and it runs them on each kind of machine."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from engine.cli.commands import SUBCOMMANDS

ROOT: Final = Path(__file__).parents[2]
MACOS: Final = "macOS: written and tested without one; tell us what breaks."
WINDOWS: Final = "Windows: WSL."
RUNNERS: Final = {"macos-15": "arm64", "macos-15-intel": "x86-64"}
"""What GitHub offers, by its documentation."""


def jobs() -> Mapping[str, Any]:
    found: Mapping[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    return found


def commands(job: Mapping[str, Any]) -> list[list[str]]:
    return [step["run"].split() for step in job["steps"] if "run" in step]


def targets() -> set[str]:
    lines = (ROOT / "Makefile").read_text().splitlines()
    heads = [line.partition(":")[0] for line in lines if ":" in line and not line.startswith(("\t", "#", "."))]
    return {
        *(word for head in heads for word in head.split()),
        ".venv/.installed",
        "tests/node/node_modules/.installed",
    }


def test_the_commands_exist() -> None:
    found = [command for job in jobs().values() for command in commands(job)]
    assert found
    for program, *arguments in found:
        if program == "make":
            assert set(arguments) <= targets()
        else:
            assert program == ".venv/bin/rewindow"
            assert arguments[0] in {row.name for row in SUBCOMMANDS}


def test_demo_and_tests_run_on_every_kind_of_machine() -> None:
    assert set(jobs()) == {"linux", "macos"}
    for job in jobs().values():
        assert [*commands(job)[-2:]] == [["make", "demo"], ["make", "test"]]
    macos = jobs()["macos"]
    assert macos["runs-on"] == "${{ matrix.runner }}"
    assert macos["strategy"] == {"fail-fast": False, "matrix": {"runner": list(RUNNERS)}}


def test_macos_is_no_classifier_before_it_has_run() -> None:
    """The README says the same. Both change when the job was green."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    systems = [each for each in classifiers if each.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
    lines = (ROOT / "README.md").read_text().splitlines()
    assert MACOS in lines
    assert WINDOWS in lines
