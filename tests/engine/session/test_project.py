from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.session.directories import find_project_environment

OURS = f"{sys.version_info.major}.{sys.version_info.minor}"


def make(root: Path, version: str = f"{OURS}.1", *packages: str) -> str:
    site = root / "lib" / f"python{'.'.join(version.split('.')[:2])}" / "site-packages"
    site.mkdir(parents=True)
    for package in packages:
        (site / f"{package}.dist-info").mkdir()
    (root / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}\n")
    return str(site)


def test_the_nearest_environment_up_to_the_workspaces_root_is_found(tmp_path: Path) -> None:
    site = make(tmp_path / ".venv", f"{OURS}.9", "b-2.0", "a-1.0")
    (tmp_path / "src" / "deep").mkdir(parents=True)
    found = find_project_environment(str(tmp_path / "src" / "deep"), {}, None)
    assert found.import_paths == (site,)
    assert found.packages == ("a-1.0", "b-2.0")
    assert found.note == ""
    assert found.python.startswith(OURS)
    (tmp_path / "src" / ".git").mkdir()
    assert find_project_environment(str(tmp_path / "src" / "deep"), {}, None).import_paths == ()


def test_the_activated_environment_wins_over_the_projects_own_and_a_chosen_one_over_both(tmp_path: Path) -> None:
    project = tmp_path / "project"
    activated, own, chosen = (make(path) for path in (tmp_path / "a", project / ".venv", tmp_path / "c"))
    variables = {"VIRTUAL_ENV": str(tmp_path / "a")}
    assert find_project_environment(str(tmp_path), variables, None).import_paths == (activated,)
    assert find_project_environment(str(project), variables, None).import_paths == (activated,)
    assert find_project_environment(str(project), {"VIRTUAL_ENV": sys.prefix}, None).import_paths == (own,)
    for choice in (str(tmp_path / "c"), str(tmp_path / "c" / "bin" / "python"), "../c"):
        assert find_project_environment(str(project), variables, choice).import_paths == (chosen,)


@pytest.mark.parametrize("version", ["2.7.18", "3.99.0"])
def test_another_minor_version_is_not_used_and_said_in_one_sentence(tmp_path: Path, version: str) -> None:
    make(tmp_path / ".venv", version)
    found = find_project_environment(str(tmp_path), {}, None)
    assert found.import_paths == ()
    assert version in found.note
    assert found.note.count(". ") == 0


def test_what_is_broken_or_missing_is_a_note_and_never_an_error(tmp_path: Path) -> None:
    assert find_project_environment(str(tmp_path / "missing"), {}, None).note == ""
    assert "--python nope" in find_project_environment(str(tmp_path), {}, "nope").note
    assert find_project_environment(str(tmp_path), {"VIRTUAL_ENV": "/nowhere"}, None).note
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "pyvenv.cfg").write_bytes(b"\xff\xfe version")
    assert find_project_environment(str(tmp_path), {}, None).note
    (tmp_path / ".venv" / "pyvenv.cfg").write_text(f"version_info = {OURS}.0.final.0\n")
    assert "cannot be read" in find_project_environment(str(tmp_path), {}, None).note
