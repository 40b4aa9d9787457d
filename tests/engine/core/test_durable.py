"""Which system call makes a file durable."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from engine.core import durable

FULL = 51
"""F_FULLFSYNC of macOS."""


def synced(tmp_path: Path, patch: pytest.MonkeyPatch, full: int | None, fails: bool = False) -> list[str]:
    calls: list[str] = []

    def control(descriptor: int, command: int) -> None:
        calls.append(f"fcntl {command}")
        if fails:
            raise OSError(errno.ENOTSUP, "no such file system")

    patch.setattr(durable, "_FULL", full)
    patch.setattr(fcntl, "fcntl", control)
    patch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    with (tmp_path / "a").open("w") as file:
        durable.sync(file.fileno())
    return calls


def test_macos_empties_the_cache_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert synced(tmp_path, monkeypatch, FULL) == [f"fcntl {FULL}"]


def test_a_file_system_that_cannot_is_synced_as_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert synced(tmp_path, monkeypatch, FULL, fails=True) == [f"fcntl {FULL}", "fsync"]


def test_other_systems_have_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert synced(tmp_path, monkeypatch, None) == ["fsync"]
