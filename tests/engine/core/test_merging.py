"""Three-way merges of texts, and git's as the judge."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from engine.core.merging import merged

BASE = "1\n2\n3\n4\n5\n6\n"


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "result"),
    [
        (BASE, BASE, BASE, BASE),
        (BASE, "mine\n2\n3\n4\n5\n6\n", BASE, "mine\n2\n3\n4\n5\n6\n"),
        (BASE, BASE, "1\n2\n3\n4\n5\nyours\n", "1\n2\n3\n4\n5\nyours\n"),
        (BASE, "mine\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\nyours\n", "mine\n2\n3\n4\n5\nyours\n"),
        (BASE, "0\n1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n6\n", "0\n1\n2\n3\n4\n6\n"),
        (BASE, "1\n2\nsame\n4\n5\n6\n", "1\n2\nsame\n4\n5\nyours\n", "1\n2\nsame\n4\n5\nyours\n"),
        (BASE, "1\n2\nmine\n4\n5\n6\n", "1\n2\nyours\n4\n5\n6\n", None),
        (BASE, "1\n2\nmine\n4\n5\n6\n", "1\n2\n3\nyours\n5\n6\n", None),
        (BASE, f"{BASE}mine\n", f"{BASE}yours\n", None),
        (BASE, "", "1\n2\n3\n4\n5\nyours\n", None),
        ("", "mine\n", "mine\n", "mine\n"),
        ("1\n2\n3", "0\n1\n2\n3", "1\n2\nend", "0\n1\n2\nend"),
        ("1\n2\n3", "1\n2\n3\n", "0\n2\n3", "0\n2\n3\n"),
        ("1\n2\n3", "1\n2\n3\nmine\n", "1\n2\n3\nyours\n", None),
        ("1\r\n2\r\n3\r\n", "0\r\n2\r\n3\r\n", "1\r\n2\r\nend\r\n", "0\r\n2\r\nend\r\n"),
        ("1\n2\n3\n", "1\r\n2\r\n3\r\n", "1\n2\nend\n", None),
        ("a\x0cb\n2\n3\n", "a\x0cc\n2\n3\n", "a\x0cb\n2\nend\n", "a\x0cc\n2\nend\n"),
    ],
)
def test_merge(base: str, ours: str, theirs: str, result: str | None) -> None:
    assert merged(base, ours, theirs) == result
    assert merged(base, theirs, ours) == result


def changed(rng: random.Random, lines: list[str]) -> list[str]:
    found = list(lines)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(found) + 1)
        found[at : at + rng.randrange(3)] = [f"{rng.random()}\n"] * rng.randrange(3)
    return found


@pytest.mark.parametrize("seed", range(60))
def test_git_merges_alike(seed: int, tmp_path: Path) -> None:
    """Where both give a result; git also splits a change of several lines, of which some are alike."""
    rng = random.Random(seed)
    base = [f"line {number}\n" for number in range(rng.randrange(3, 20))]
    texts = {"ours": "".join(changed(rng, base)), "base": "".join(base), "theirs": "".join(changed(rng, base))}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ("git", "merge-file", "-p", *texts), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    result = merged(texts["base"], texts["ours"], texts["theirs"])
    if result is not None:
        assert (done.returncode, done.stdout) == (0, result)
    elif done.returncode == 0:
        assert texts["ours"] != texts["base"] != texts["theirs"]


def test_long_texts_merge_soon() -> None:
    base = [f"{number % 50}\n" for number in range(60_000)]
    ours, theirs = ["mine\n", *base[1:]], [*base[:-1], "yours\n"]
    assert merged(*map("".join, (base, ours, theirs))) == "".join(["mine\n", *base[1:-1], "yours\n"])
