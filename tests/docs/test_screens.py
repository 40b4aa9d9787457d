"""The pictures of the terminal match `rewindow run`: two of them are drawn again."""

from __future__ import annotations

import re

import pytest

from docs.terminal.scenes import SCENES, Scene
from docs.terminal.screens import HERE, draw, page
from tests.support.stores import ROOT

DRAWN = ("03-reply", "11-change")
MACHINE = re.compile(r"/tmp/|/work/|/root/|ses_(?!0123)")


@pytest.mark.slow
@pytest.mark.parametrize("scene", [scene for scene in SCENES if scene.name in DRAWN], ids=lambda scene: scene.name)
def test_picture_matches_the_program(scene: Scene) -> None:
    committed = (HERE / f"{scene.name}.svg").read_text(encoding="utf-8")
    drawn, text = draw(scene, ROOT)
    assert drawn == committed, f"run `python -m docs.terminal.screens` and look at what changed:\n{text}"


def test_the_page_shows_every_picture() -> None:
    assert (HERE / "README.md").read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("folder", [HERE, HERE / "before"], ids=["now", "before"])
def test_pictures_name_no_machine(folder: object) -> None:
    for scene in SCENES:
        picture = (HERE if folder == HERE else HERE / "before") / f"{scene.name}.svg"
        text = picture.read_text(encoding="utf-8")
        assert MACHINE.search(text) is None
        assert "http://127.0.0.1" in text or "url(http" not in text
