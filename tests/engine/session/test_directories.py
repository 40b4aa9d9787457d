"""How a client spells the paths of its files."""

from __future__ import annotations

from pathlib import Path

from engine.session.directories import Spellings


def test_a_file_is_spelled_below_the_directory_that_was_given(tmp_path: Path) -> None:
    real, link, other = tmp_path / "real", tmp_path / "link", tmp_path / "other"
    (real / "inner").mkdir(parents=True)
    other.mkdir()
    link.symlink_to(real)
    inner = tmp_path / "inner"
    inner.symlink_to(real / "inner")
    spellings = Spellings((str(link), str(other), str(inner)))
    assert spellings.of(f"{real}/a.py") == f"{link}/a.py"
    assert spellings.of(f"{link}/a.py") == f"{link}/a.py"
    assert spellings.of(f"{other}/b/a.py") == f"{other}/b/a.py"
    assert spellings.of(f"{real}/inner/a.py") == f"{inner}/a.py"
    assert spellings.of(f"{real}-else/a.py") == f"{real}-else/a.py"
    assert spellings.of("") == ""
