"""Tries mutants, two at a time, each in a copy of the tree of its own."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tests.mutants.places import mutate
from tests.mutants.recording import MODULES, RECORD, Recorded
from tests.mutants.rooms import ROOT, Room
from tests.mutants.sampling import Mutant, Result, Verdict
from tests.mutants.tree import Tree, adopt_orphans

BUILD: Final = ROOT / "build/mutants"
_AT_A_TIME: Final = 2
_RECORDING_SECONDS: Final = 1800.0


class Limit(NamedTuple):
    """How long the tests of a mutant may take, in seconds."""

    start: float = 40.0
    beside: float = 20.0
    """What a file of tests in other processes takes."""
    slower: float = 4.0
    """How many times as long as recorded."""

    def of(self, tests: Sequence[str], recorded: Recorded) -> float:
        return self.start + self.slower * sum(recorded.seconds.get(test, self.beside) for test in tests)


_trees: list[Tree] = []
"""The copy of the tree in a process that tries mutants."""


def results(
    rooms: Sequence[Room],
    mutants: Sequence[Mutant],
    root: Path = ROOT,
    build: Path = BUILD,
    limit: Limit = Limit(),  # noqa: B008 - it is frozen
) -> Iterator[Result]:
    """Record the tests of the rooms, then try the mutants, and yield each result as soon as it is known."""
    build = build.resolve()
    build.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory(dir=build) as copies,
        ProcessPoolExecutor(_AT_A_TIME, context, _prepare, (root, Path(copies))) as pool,
    ):
        recordings = [pool.submit(_record, room, build) for room in rooms]
        tries = [
            pool.submit(_try, mutant, tests, limit.of(tests, recording.result()))
            for room, recording in zip(rooms, recordings, strict=True)
            for mutant in mutants
            if mutant.room == room.name
            for tests in [[*recording.result().tests_of(mutant.module, mutant.place), *room.beside]]
        ]
        for done in as_completed(tries):
            yield done.result()


def _prepare(root: Path, copies: Path) -> None:
    """Make the copy of a process that tries mutants."""
    adopt_orphans()
    _trees.append(Tree(root, copies / f"{os.getpid()}"))


def _record(room: Room, build: Path) -> Recorded:
    return record(room, _trees[0], build)


def _try(mutant: Mutant, tests: Sequence[str], seconds: float) -> Result:
    return try_one(_trees[0], mutant, tests, seconds)


def record(room: Room, tree: Tree, folder: Path) -> Recorded:
    """Return which tests of a room run which lines. What is in `folder` is recorded again if it has changed."""
    file = folder / f"{room.name}-{_digest(tree.path / path for path in room.sources(tree.path))}.json"
    recorded = msgspec.json.decode(file.read_bytes(), type=Recorded) if file.exists() else Recorded()
    files = {path: _digest([tree.path / path]) for path in room.test_files(tree.path)}
    changed = [path for path, digest in files.items() if recorded.files.get(path) != digest]
    if changed:
        new = folder / f"{room.name}.new"
        modules = os.pathsep.join(room.sources(tree.path))
        tree.run(changed, _RECORDING_SECONDS, {MODULES: modules, RECORD: str(new)})
        if not new.exists():
            raise RuntimeError(f"the tests of the room {room.name} could not be recorded:\n{tree.output}")
        recorded = recorded.updated(msgspec.json.decode(new.read_bytes(), type=Recorded), files)
        file.write_bytes(msgspec.json.encode(recorded))
        new.unlink()
    return recorded


def _digest(paths: Iterable[Path]) -> str:
    return hashlib.blake2b(b"".join(path.read_bytes() for path in paths), digest_size=8).hexdigest()


def try_one(tree: Tree, mutant: Mutant, tests: Sequence[str], seconds: float) -> Result:
    """Change the module in the tree, run the tests of the place, and put the module back."""
    if not tests:
        return Result(mutant, "survived", 0, 0.0, "no test runs it")
    source = (tree.path / mutant.module).read_bytes()
    changed = mutate(source, mutant.place)
    assert changed is not None
    tree.write(mutant.module, changed)
    try:
        ending, spent = tree.run(tests, seconds)
    finally:
        tree.write(mutant.module, source)
    verdict: Verdict = "survived" if ending == "passed" else "killed" if ending == "failed" else ending
    return Result(mutant, verdict, len(tests), spent, tree.output[-2000:])
