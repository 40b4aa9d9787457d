"""Joining a Ray cluster: from where its processes import, and with which token."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.runtime import ray_cluster
from engine.runtime.ray_cluster import authenticate, join


def test_a_cluster_is_joined_from_a_directory_that_no_statement_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[str] = []
    monkeypatch.chdir(tmp_path)
    fake = SimpleNamespace(init=lambda *_, **__: places.append(os.getcwd()))
    monkeypatch.setattr(ray_cluster, "import_module", lambda name: {"ray": fake}[name])
    assert join("10.0.0.1:6379") is None
    assert (places, os.getcwd()) == (["/"], str(tmp_path))


def test_the_token_is_given_to_what_is_written_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    put: list[str] = []
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "token-4711")
    os.unsetenv("RAY_AUTH_TOKEN")  # as `withhold_variables` does
    monkeypatch.setattr(os, "putenv", lambda name, _: put.append(name))
    authenticate("10.0.0.1:6379", "postgresql://h/d")
    assert put == [b"RAY_AUTH_TOKEN"]
