"""What a directory was at the last comparison: kept for the next process, private, and disposable."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.core.execution import DIRECTORY, LINK
from engine.core.pictures import HAS_SECRET
from engine.session.working_tree import baseline
from engine.session.working_tree.baseline import FULL, Baseline, Known, forget_unused


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "d").mkdir(parents=True)
    (root / "a").write_text("one")
    (root / "l").symlink_to("a")
    return root


def opened(root: Path, tmp_path: Path) -> Baseline:
    return Baseline(str(root), str(tmp_path / "state" / "x.db"), lambda data: b"secret" not in data)


def timeless(found: Mapping[str, Known]) -> dict[str, object]:
    """What was found, without the times of changes, which are not trusted while they are young."""
    return {path: (known.state._replace(changed=0), known.digest, known.reason) for path, known in found.items()}


def test_entries_and_contents_are_kept_for_the_next_process(root: Path, tmp_path: Path) -> None:
    first = opened(root, tmp_path)
    before = first.update()
    first.close()
    again = opened(root, tmp_path)
    assert timeless(again.update()) == timeless(before)
    assert {path: known.digest.partition("-")[0] for path, known in before.items()} == {
        "a": before["a"].digest,
        "d/": DIRECTORY,
        "l": LINK.rstrip("-"),
    }
    assert [again.content(before[name].digest) for name in ("a", "l")] == [b"one", b"a"]
    assert stat.S_IMODE((tmp_path / "state" / "x.db").stat().st_mode) == 0o600
    again.close()


def test_replaced_content_is_still_there(root: Path, tmp_path: Path) -> None:
    kept = opened(root, tmp_path)
    before = kept.update()["a"]
    (root / "a").write_text("two")
    after = kept.update()["a"]
    assert [kept.content(each.digest) for each in (before, after)] == [b"one", b"two"]
    kept.close()


def test_secret_and_surplus_are_not_kept(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "s").write_text("a secret")
    (root / "t").symlink_to("secret")
    (root / "named secret").touch()
    kept = opened(root, tmp_path)
    found = kept.update()
    assert [found[name].reason for name in ("s", "t", "a")] == [HAS_SECRET, HAS_SECRET, ""]
    assert kept.content(found["s"].digest) is None
    assert "named secret" not in found
    stored = b"".join(path.read_bytes() for path in (tmp_path / "state").iterdir())
    assert b"secret" not in stored.replace(HAS_SECRET.encode(), b"")
    monkeypatch.setattr(baseline, "MOST_BYTES", 10)
    (root / "big").write_text("x" * 20)
    assert kept.update()["big"].reason == FULL
    kept.close()


def test_damaged_database_is_made_anew(root: Path, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "x.db").write_bytes(b"no database" * 1000)
    kept = opened(root, tmp_path)
    assert set(kept.update()) == {"a", "d/", "l"}
    kept.close()


def test_unused_database_is_removed(root: Path, tmp_path: Path) -> None:
    kept = opened(root, tmp_path)
    kept.update()
    kept.close()
    forget_unused(str(tmp_path / "state"))
    assert (tmp_path / "state" / "x.db").exists()
    long_ago = time.time() - baseline.UNUSED_SECONDS - 60
    for path in (tmp_path / "state").iterdir():
        os.utime(path, (long_ago, long_ago))
    forget_unused(str(tmp_path / "state"))
    assert list((tmp_path / "state").iterdir()) == []
