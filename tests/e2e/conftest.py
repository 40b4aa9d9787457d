"""Agents and servers are tested as users run them: in the sandbox, where a model or a client writes the statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.postgresql import Server, servers


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it() -> Iterator[None]:
    """The setting `sandbox` as it is without any word on it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("REWINDOW_SANDBOX")
        yield


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Callable[[str], Server]]:
    """Returns the server of a version, which all tests of this process share."""
    with servers() as started:
        yield started


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty directory."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
