"""What `rewindow page` does beside serving: finding the session, and showing the address in a browser."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from engine.core.errors import InvalidRequestError
from engine.runtime.system import desktop
from session_page import command
from session_page.assembly import NO_BUNDLE, SCRIPT

ADDRESS = "http://127.0.0.1:1/#ticket=x"


def fake_browser(place: Path, name: str) -> None:
    """A program that writes its arguments and its environment into files beside itself."""
    program = place / name
    program.write_text(
        f'#!/bin/sh\necho "$1" > {place}/argument\nenv > {place}/environment.part\n'
        f"mv {place}/environment.part {place}/environment\n"
    )
    program.chmod(0o755)


def test_browser_gets_the_address_and_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_browser(tmp_path, desktop._PROGRAMS[0])
    monkeypatch.setattr(desktop, "PLACES", f"{tmp_path}:/usr/bin:/bin")
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **options: started.append(real(*args, **options)))
    environ = {"DISPLAY": ":0", "PATH": "/usr/bin:/bin", "ANTHROPIC_API_KEY": "sk-1", "XDG_RUNTIME_DIR": "/run"}
    assert command.show(ADDRESS, environ)
    started[0].wait(timeout=20)
    assert (tmp_path / "argument").read_text() == f"{ADDRESS}\n"
    names = {line.partition("=")[0] for line in (tmp_path / "environment").read_text().splitlines()}
    assert {"DISPLAY", "XDG_RUNTIME_DIR"} <= names
    assert "ANTHROPIC_API_KEY" not in names


def test_no_program_of_path_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in desktop._PROGRAMS:
        fake_browser(tmp_path, name)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not (desktop.browser_program({"DISPLAY": ":0"}) or "").startswith(str(tmp_path))


def test_missing_front_end_is_named_before_an_address(tiny_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tiny_bundle / SCRIPT).unlink()
    with pytest.raises(InvalidRequestError, match=re.escape(NO_BUNDLE.format(name=SCRIPT))):
        command.page(None, browser=False, port=0)
    assert capsys.readouterr().err == ""


def test_without_a_desktop_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desktop.sys, "platform", "linux")
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a program was started"))
    assert not command.show(ADDRESS, {"PATH": "/usr/bin:/bin"})
