"""The recording of the README shows what the program does now: it is drawn again."""

from __future__ import annotations

import re

from docs.images.__main__ import HERE
from docs.images.recording import NAME, draw
from tests.support.stores import ROOT

MACHINE = re.compile(r"/tmp/|/work/|/root/|ses_")
MOST_BYTES = 150_000


def test_recording_matches_the_program() -> None:
    assert draw(ROOT) == (HERE / NAME).read_text(encoding="utf-8"), "run `make pictures`, and look at what changed"


def test_recording_is_small_and_names_no_machine() -> None:
    text = (HERE / NAME).read_text(encoding="utf-8")
    assert len(text) < MOST_BYTES
    assert MACHINE.search(text) is None
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
