"""Every level of a real file in each language, as it was reviewed; `python -m tests.support.levels` writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.levels import FOLDER, kept, levels_of
from tests.support.outlines import samples


@pytest.mark.parametrize("sample", samples(), ids=lambda path: path.name)
def test_the_levels_of_a_real_file_read_as_they_were_reviewed(sample: Path) -> None:
    assert levels_of(sample) == kept(sample).read_text(encoding="utf-8")


def test_no_text_is_kept_of_a_file_that_is_not_there() -> None:
    assert sorted(FOLDER.iterdir()) == sorted(map(kept, samples()))
