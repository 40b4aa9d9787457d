"""What moved in a repository, beside what git itself says, and whether the named commands take it back."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from engine.files.git_refs import MOST_BRANCHES, MOST_MOVES, git_refs, moves
from tests.engine.files.test_git_state import git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    for words in ("init -q", "config user.name t", "config user.email t@e", "add .", "commit -qm one", "branch side"):
        git(root, *words.split())
    return root


def refs(root: Path) -> str:
    return git(root, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/stash") + git(
        root, "rev-parse", "--symbolic-full-name", "HEAD"
    )


MOVES = {
    "a commit": "echo two > a.txt; git commit -qam two",
    "a commit after packing": "git pack-refs --all; echo two > a.txt; git commit -qam two",
    "another branch": "git switch -q side",
    "a new branch": "git branch new",
    "a deleted branch": "git branch -q -D side",
    "a deleted branch that was packed": "git pack-refs --all; git branch -q -D side",
    "a moved branch": "echo two > a.txt; git commit -qam two; git branch -f side; git reset -q --hard HEAD~",
    "no branch": "git switch -q --detach",
    "a stash": "echo two > a.txt; git stash -q",
}


@pytest.mark.parametrize("command", MOVES.values(), ids=MOVES)
def test_named_commands_take_a_move_back(repository: Path, command: str) -> None:
    before, was = refs(repository), git_refs(str(repository))
    subprocess.run(["bash", "-ec", command], cwd=repository, check=True)
    assert refs(repository) != before
    now = git_refs(str(repository))
    assert was is not None
    assert now is not None
    for phrase in moves(was, now):
        back = phrase.partition("`")[2].rstrip("`")
        subprocess.run(back.split(), cwd=repository, check=True, capture_output=True)
    assert refs(repository) == before
    assert git_refs(str(repository)) == was


def test_nothing_is_named_where_nothing_moved(repository: Path) -> None:
    was = git_refs(str(repository))
    assert was is not None
    (repository / "a.txt").write_text("two\n")
    git(repository, "add", "a.txt")
    git(repository, "pack-refs", "--all")
    now = git_refs(str(repository))
    assert now is not None
    assert moves(was, now) == []


def test_moves_in_a_linked_work_tree_are_those_of_its_branch(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "linked"), "side")
    was = git_refs(str(tmp_path / "linked"))
    (tmp_path / "linked" / "a.txt").write_text("two\n")
    git(tmp_path / "linked", "commit", "-qam", "two")
    now = git_refs(str(tmp_path / "linked"))
    assert was is not None
    assert now is not None
    (phrase,) = moves(was, now)
    assert phrase.startswith("side: ")
    assert "git reset --soft" in phrase


def test_no_command_has_a_name_that_a_shell_reads_otherwise(repository: Path) -> None:
    was = git_refs(str(repository))
    git(repository, "branch", "a;touch$IFS'x'")
    now = git_refs(str(repository))
    assert was is not None
    assert now is not None
    (phrase,) = moves(was, now)
    assert "`" not in phrase
    assert phrase.startswith("a;touch$IFS'x': nothing -> ")


def test_of_very_many_branches_the_checked_out_one_counts(repository: Path) -> None:
    for number in range(MOST_BRANCHES + 1):
        shutil.copyfile(repository / ".git/refs/heads/side", repository / f".git/refs/heads/b{number}")
    found = git_refs(str(repository))
    assert found is not None
    assert list(found.refs) == [f"refs/heads/{found.head}"]
    git(repository, "pack-refs", "--all")
    assert git_refs(str(repository)) == found


def test_many_moves_are_counted(repository: Path) -> None:
    was = git_refs(str(repository))
    for number in range(MOST_MOVES + 2):
        git(repository, "branch", f"b{number}")
    now = git_refs(str(repository))
    assert was is not None
    assert now is not None
    assert moves(was, now)[-1] == "2 more"


def test_what_is_no_repository_has_no_refs(tmp_path: Path) -> None:
    assert git_refs(str(tmp_path)) is None
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("../../etc/passwd")
    assert git_refs(str(tmp_path)) is None
