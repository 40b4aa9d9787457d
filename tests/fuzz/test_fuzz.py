"""The targets accept what is known, and a run finds a bug that is planted."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.fuzz.__main__ import CORPUS, fuzz
from tests.fuzz.planted import PLANTED
from tests.fuzz.seeds import seeds
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_kept_inputs_are_accepted(name: str) -> None:
    inputs = [*seeds(name), *(path.read_bytes() for path in sorted(CORPUS.glob(f"{name}/*")))]
    assert inputs
    for data in inputs:
        TARGETS[name].run(data)


def test_the_corpus_is_small_and_each_target_can_be_broken() -> None:
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert {path.parent.name for path in files} <= set(TARGETS) == set(PLANTED)
    assert sum(path.stat().st_size for path in files) < 200_000


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris has no wheel for this Python")
@pytest.mark.parametrize("name", ["schemas", "diffs"])
def test_a_run_finds_a_planted_bug(name: str, tmp_path: Path) -> None:
    assert fuzz(TARGETS[name], tmp_path, 60, seed=1, planted=True) != 0
    assert fuzz(TARGETS[name], tmp_path, 2, seed=1) == 0
