"""The account of a session's surroundings is short, and names the project's packages that are installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.tokens import count
from engine.files.surroundings import MOST_PACKAGES, NO_ENVIRONMENT, surroundings

BEGAN = 1_795_910_400.0
"""Noon of 2026-11-29, in UTC."""


def python_line(folder: Path, *packages: str) -> str:
    return surroundings(str(folder), BEGAN, "3.12.1", packages).splitlines()[-1]


def test_date_system_branch_and_python_are_named(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/topic/one\n")
    began, system, git, python = surroundings(str(tmp_path), BEGAN, "3.12.1", ()).splitlines()
    assert "2026-11-29 (Sunday)" in began
    assert system.startswith("- system: Linux ")
    assert git == "- git: branch topic/one"
    assert python == f"- Python 3.12.1, {NO_ENVIRONMENT}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[project]\ndependencies = ["Typing.Extensions>=4", "absent"]\n'),
        ("pyproject.toml", '[dependency-groups]\ndev = ["typing-extensions", {include-group = "x"}]\n'),
        ("pyproject.toml", '[tool.poetry.group.dev.dependencies]\ntyping_extensions = "^4"\n'),
        ("requirements.txt", "# tools\n-r more.txt\ntyping-extensions==4.12 ; python_version > '3'\n"),
    ],
)
def test_declared_packages_are_named_with_their_versions(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert (
        python_line(tmp_path, "typing_extensions-4.12.2", "other-1") == "- Python 3.12.1 with typing-extensions 4.12.2"
    )


@pytest.mark.parametrize(
    "text", ["[project", "project = 7", "[project]\ndependencies = 'x'", "\x00", "a = " + "[" * 5_000]
)
def test_an_invalid_project_file_names_no_package(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert python_line(tmp_path, "x-1") == "- Python 3.12.1"


def test_the_account_stays_short(tmp_path: Path) -> None:
    names = [f"package{number}" for number in range(500)]
    (tmp_path / "requirements.txt").write_text("\n".join(names))
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text(f"ref: refs/heads/{'long' * 500}\n")
    text = surroundings(str(tmp_path), BEGAN, "3.12.1", [f"{name}-1.2.3" for name in names])
    assert f"and {500 - MOST_PACKAGES} more declared" in text
    assert count(text) < 250


def test_names_have_no_control_characters(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/a\x1b[2Jb\n")
    assert "- git: branch a\\x1b[2Jb\n" in surroundings(str(tmp_path), BEGAN, "3.12.1", ())
