"""Outlines, and levels 1 and 2, of a real package beside `repomix --compress`: the rows of the bars on levels.

What is measured is said in `programs/outlines.py`. The package is openhands-sdk, which the suite `view` has as a peer;
where that cannot be installed, and for a quick look, it is this checkout's own engine, without verdicts on shares.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from benchmarks.bench_view import PEER, REQUIREMENT
from benchmarks.environments import NODE, ROOT, peer_package, peer_python
from benchmarks.measuring import Program, Setting, duration, in_turns, programs, row, script
from benchmarks.report import Row

ROUNDS: Final = 5
REPOMIX: Final = "repomix@1.18.1"
_SHARES: Final = {1: 0.12, 2: 0.05}
_SECONDS: Final = 0.5


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """One row per bar."""
    folder = None if setting.quick else _package()
    commands = {
        name: (checkout.python, script("outlines.py"), str(folder or ROOT / "engine"))
        for name, checkout in setting.checkouts.items()
    }
    peer = None if folder is None else _Repomix.installed(folder)
    with programs(commands) as subjects:
        return _rows(subjects, setting, peer, has_bars=folder is not None)


def _rows(subjects: dict[str, Program], setting: Setting, peer: _Repomix | None, *, has_bars: bool) -> list[Row]:
    rounds = setting.rounds(ROUNDS)
    files = subjects["ours"].seconds("files")
    one = in_turns(subjects, rounds, lambda subject: subject.seconds("outlines", 1, False))
    counted = in_turns(subjects, rounds, lambda subject: subject.seconds("outlines", 1, True))
    growth = in_turns(subjects, rounds, lambda subject: subject.seconds("growth"))
    rows = [
        row(f"outlines of {files:,.0f} files, by one process", one, duration),
        row("the same with references", counted, duration),
    ]
    packing: Mapping[str, Program | _Repomix] = {**subjects, REPOMIX: peer} if peer else subjects
    for level, most in _SHARES.items():
        seconds = in_turns(packing, rounds, lambda subject, level=level: subject.seconds("level", level))
        share = in_turns(subjects, 1, lambda subject, level=level: subject.seconds("share", level))
        if peer:
            share[REPOMIX] = subjects["ours"].seconds("share of file", str(peer.packed))
        missing = "" if peer or not has_bars else f"missing: {REPOMIX} cannot be installed"
        rows += [
            row(
                f"level {level} of all of them, outlines by two processes",
                seconds,
                duration,
                bar=f"<= {duration(_SECONDS)}",
                met=seconds["ours"] <= _SECONDS if has_bars else None,
                peer=missing,
            ),
            row(
                f"level {level}, share of their tokens",
                share,
                lambda part: f"{part:.1%}",
                bar=f"<= {most:.0%}",
                met=share["ours"] <= most if has_bars else None,
                peer=missing,
            ),
        ]
    return [*rows, row("memory that the first outline takes (PSS)", growth, lambda held: f"{held / 1e6:.1f} MB")]


def _package() -> Path | None:
    python = peer_python(PEER, REQUIREMENT, minors=(12, 13))
    found = python and next(python.parents[1].glob("lib/python*/site-packages/openhands/sdk"), None)
    return found or None


class _Repomix(NamedTuple):
    """`repomix --compress` over the same files, as a program that starts anew each time: it cannot be had otherwise."""

    command: tuple[str, ...]
    packed: Path

    @classmethod
    def installed(cls, folder: Path) -> _Repomix | None:
        modules = peer_package("repomix", REPOMIX)
        if modules is None:
            return None
        packed = modules.parent / "packed.txt"
        # The files are in the environment of a peer, which git ignores.
        files = ("--no-gitignore", "--include", "**/*.py", str(folder))
        what = ("--compress", "--quiet", "--style", "plain", "-o", str(packed), *files)
        return cls((str(NODE), str(modules / ".bin" / "repomix"), *what), packed)

    def seconds(self, *_: object) -> float:
        """What it takes, whatever is asked. Raises CalledProcessError."""
        started = perf_counter()
        subprocess.run(self.command, check=True, capture_output=True)
        return perf_counter() - started
