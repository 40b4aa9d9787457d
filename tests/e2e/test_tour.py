"""All that an editor does with models in one session, from signing in to signing out, by four clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tour import take_tour
from tests.support.tour_clients import acpx, python_sdk, typescript_sdk, zed

pytestmark = pytest.mark.slow


def test_tour_as_zed(tmp_path: Path) -> None:
    """In the order and with the capabilities of Zed. Its buffers are not asked for, because it has none open."""
    take_tour(tmp_path, zed)


def test_tour_by_the_python_sdk(tmp_path: Path) -> None:
    """The SDK's client has no call for `logout`: `rewindow auth remove` stands for it."""
    take_tour(tmp_path, python_sdk)


def test_tour_by_the_typescript_sdk(tmp_path: Path) -> None:
    take_tour(tmp_path, typescript_sdk)


def test_tour_by_acpx(tmp_path: Path) -> None:
    """acpx keeps the agent alive between its commands.

    It cannot sign in by terminal or log out: `rewindow auth add` and `rewindow auth remove` stand for them. It calls
    `authenticate` only at the agent's start, for methods with credentials in its own configuration. It hides the
    agent's stderr. It asks for files from the disk instead of having none open.
    """
    take_tour(tmp_path, acpx)
