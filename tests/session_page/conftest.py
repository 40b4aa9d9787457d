"""A page whose front end is a few letters, because its data and its behaviour are what is tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from session_page import assembly
from tests.support.page_server import SCRIPT, STYLE


@pytest.fixture(autouse=True)
def tiny_bundle(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path_factory.mktemp("bundle")
    (place / assembly.SCRIPT).write_text(SCRIPT)
    (place / assembly.STYLE).write_text(STYLE)
    monkeypatch.setattr(assembly, "BUNDLE", place)
    return place
