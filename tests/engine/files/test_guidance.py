"""The files with instructions for agents: which count, what they import, and how long ones are cut."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

import pytest

from engine.files.guidance import (
    FILE_CHARS,
    LEFT_OUT,
    NAMES,
    NOT_READ,
    TOTAL_CHARS,
    guidance_files,
    guidance_near,
    project_root,
)
from engine.files.safe_open import opened_file
from engine.log.events.session import GuidanceFile


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with the directory `app/web`, beside the user's configuration in `user`."""
    root = Path(os.path.realpath(tmp_path)) / "project"
    (root / ".git").mkdir(parents=True)
    (root / "app/web").mkdir(parents=True)
    (root.parent / "user").mkdir()
    return root


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found(directory: Path, project: Path) -> list[tuple[str, str]]:
    files = guidance_files(str(directory), str(project.parent / "user"))
    return [(os.path.relpath(each.path, project), each.text) for each in files]


def test_files_come_from_user_and_each_directory_down(project: Path) -> None:
    write(project.parent / "user/AGENTS.md", "user")
    write(project / "AGENTS.md", "root")
    write(project / "app/CLAUDE.md", "app")
    write(project / "app/web/GEMINI.md", "web")
    write(project / "app/web/deeper/AGENTS.md", "deeper")
    write(project.parent / "AGENTS.md", "above the repository")
    assert found(project / "app/web", project) == [
        ("../user/AGENTS.md", "user"),
        ("AGENTS.md", "root"),
        ("app/CLAUDE.md", "app"),
        ("app/web/GEMINI.md", "web"),
    ]


def test_first_name_counts_in_each_directory(project: Path) -> None:
    for name in reversed(NAMES):
        write(project / name, name)
        assert found(project, project) == [(name, name)]


def test_without_a_repository_only_the_directory_counts(project: Path) -> None:
    (project / ".git").rmdir()
    write(project / "AGENTS.md", "root")
    write(project / "app/AGENTS.md", "app")
    assert found(project / "app", project) == [("app/AGENTS.md", "app")]
    assert project_root(str(project / "app")) == str(project / "app")


def test_equal_texts_count_once_for_the_nearest(project: Path) -> None:
    write(project / "AGENTS.md", "same\n")
    write(project / "app/AGENTS.md", "same")
    assert found(project / "app", project) == [("app/AGENTS.md", "same")]


def test_links_out_of_the_project_are_not_read(project: Path) -> None:
    write(project.parent / "elsewhere.md", "secret")
    (project / "AGENTS.md").symlink_to(project.parent / "elsewhere.md")
    write(project / "app/AGENTS.md", "@../../elsewhere.md\n@../inside.md")
    (project / "inside.md").symlink_to(project.parent / "elsewhere.md")
    assert found(project / "app", project) == [
        (
            "app/AGENTS.md",
            "@../../elsewhere.md (not read: not a text file of the project)\n"
            "@../inside.md (not read: not a text file of the project)",
        )
    ]


def test_user_may_link_their_own_file(project: Path) -> None:
    write(project.parent / "dotfiles/agents.md", "mine")
    (project.parent / "user/AGENTS.md").symlink_to(project.parent / "dotfiles/agents.md")
    assert found(project, project) == [("../user/AGENTS.md", "mine")]


def test_imports_are_read_in_place_and_once(project: Path) -> None:
    write(project / "AGENTS.md", "before\n- @docs/style.md\nafter @docs/style.md\n```\n@docs/style.md\n```\n@AGENTS.md")
    write(project / "docs/style.md", "style\n@more.md\n@../AGENTS.md")
    write(project / "docs/more.md", "more\n@style.md")
    assert found(project, project) == [
        (
            "AGENTS.md",
            "before\nstyle\nmore\n@style.md\n@../AGENTS.md\nafter @docs/style.md\n```\n@docs/style.md\n```\n@AGENTS.md",
        )
    ]


@pytest.mark.parametrize("content", [b"", b" \n\t\n", b"\0\1\2binary\0", None])
def test_files_without_text_count_as_none(project: Path, content: bytes | None) -> None:
    if content is None:
        os.mkfifo(project / "AGENTS.md")
    else:
        (project / "AGENTS.md").write_bytes(content)
    assert found(project, project) == []


def test_other_encodings_and_terminal_codes_become_legible(project: Path) -> None:
    (project / "AGENTS.md").write_bytes("caf\xe9 \x1b[2Jgone".encode("latin-1"))
    assert found(project, project) == [("AGENTS.md", "café \\x1b[2Jgone")]


def test_long_file_is_its_beginning_and_later_headings(project: Path) -> None:
    lines = [f"## Part {number}\n{'word ' * 40}" for number in range(50_000)]
    write(project / "AGENTS.md", "# Title\n" + "\n".join(lines))
    ((_, text),) = found(project, project)
    assert text.startswith("# Title\n## Part 0\n")
    assert "more lines in the file, with these headings\n" in text
    headings = text.rpartition("headings\n")[2].split("\n")
    assert headings[0].endswith(f": ## Part {len(text.rpartition('...')[0].split('## Part ')) - 1}")
    assert len(text) <= FILE_CHARS + 100


def test_one_long_line_is_cut(project: Path) -> None:
    write(project / "AGENTS.md", "x" * 1_000_000)
    ((_, text),) = found(project, project)
    assert text.startswith("xxx")
    assert len(text) <= FILE_CHARS


def test_all_files_together_fit_the_nearest_first(project: Path) -> None:
    folders = [project, *(project / "/".join("abcd"[:count]) for count in range(1, 5))]
    for number, folder in enumerate(folders):
        write(folder / "AGENTS.md", f"{number} " + "word " * FILE_CHARS)
    texts = [text for _, text in found(folders[-1], project)]
    assert [text == LEFT_OUT or text[0] for text in texts] == [True, True, "2", "3", "4"]
    assert sum(len(text) for text in texts if text != LEFT_OUT) <= TOTAL_CHARS


def test_files_further_down_come_with_a_path_there(project: Path) -> None:
    write(project / "AGENTS.md", "root")
    write(project / "app/AGENTS.md", "app")
    write(project / "app/web/CLAUDE.md", "web")
    near = list(guidance_near([str(project / "app/web/page.py")], str(project)))
    assert near == [
        GuidanceFile(str(project / "app/AGENTS.md"), "app"),
        GuidanceFile(str(project / "app/web/CLAUDE.md"), "web"),
    ]
    assert list(guidance_near([str(project / "setup.py")], str(project))) == []
    assert list(guidance_near(["/etc/passwd"], str(project))) == []


def test_each_directory_is_read_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project / "app/AGENTS.md", "app")
    write(project / "app/deep/AGENTS.md", "deep")
    opened: list[str] = []

    def noted(path: str, roots: tuple[str, ...]) -> AbstractContextManager[BinaryIO]:
        opened.append(path)
        return opened_file(path, roots)

    monkeypatch.setattr("engine.files.guidance.opened_file", noted)
    paths = [str(project / f"app/{folder}page{number}.py") for folder in ("deep/", "") for number in range(50)]
    assert [file.text for file in guidance_near(paths, str(project))] == ["app", "deep"]
    assert len(opened) == 2


def test_names_of_people_and_packages_are_no_missing_files(project: Path) -> None:
    write(project / "AGENTS.md", "- @alice\n- @org/pkg\n- @docs/gone.md\n- @folder")
    (project / "folder").mkdir()
    assert found(project, project) == [
        ("AGENTS.md", f"- @alice\n- @org/pkg\n- @docs/gone.md{NOT_READ}\n- @folder{NOT_READ}")
    ]


@pytest.mark.parametrize("before", range(3))
def test_a_long_file_is_cut_between_characters(project: Path, before: int) -> None:
    write(project / "AGENTS.md", "a" * before + "\u65e5\n" * 300_000)
    ((_, text),) = found(project, project)
    assert text.splitlines()[0] == "a" * before + "\u65e5"


KEY = "sk-proj-Zq7RkW3xYb9TfLm2PcVn5JhGdS8aEuQo1iXtBy4wKvM"


@pytest.mark.parametrize("size", [FILE_CHARS - 2_000, 1 << 20])
@pytest.mark.parametrize("left", [3, 20, 45])
def test_no_cut_leaves_a_part_of_a_key(project: Path, size: int, left: int) -> None:
    filling = "ab " if size < FILE_CHARS else "# a\n"
    start = (filling * size)[: size - left - 2] + "\n# "[-2 if size > FILE_CHARS else -1 :]
    write(project / "AGENTS.md", f"{start}{KEY} {filling * 1_000}")
    ((_, text),) = found(project, project)
    assert [at for at in range(len(KEY) - 8) if KEY[at : at + 8] in text] == []
