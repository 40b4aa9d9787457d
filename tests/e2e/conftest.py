"""Agents and servers are tested as users run them: in the sandbox, where a model or a client writes the statements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it() -> Iterator[None]:
    """The setting `sandbox` as it is without any word on it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("REWINDOW_SANDBOX")
        yield


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty directory."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
