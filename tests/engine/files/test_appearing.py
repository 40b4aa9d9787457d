"""Which directories are watched for new protected names, and which names may not stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.files.appearing import NEW_REPOSITORY, REPOSITORY, TOP, WAY, found, kind_below, must_go
from engine.files.protected import Protection

GONE = {
    TOP: (".envrc", ".NPMRC", "sitecustomize.so", "mise.toml"),
    REPOSITORY: ("commondir", "config.worktree", "CONFIG", "hooks", "remotes"),
    NEW_REPOSITORY: ("commondir", "config.worktree"),
    ".cargo": ("config.toml",),
}
STAYS = {
    TOP: (".git", "README", "vscode", "config", ".vscode", ".Claude", "a.code-workspace"),
    REPOSITORY: ("rebase-merge", "sequencer", "index.lock", "HEAD", ".envrc"),
    NEW_REPOSITORY: ("config", "hooks", "branches"),
    ".cargo": ("registry", "hgrc"),
    WAY: (".envrc",),
}


@pytest.mark.parametrize("kind", GONE)
def test_names_that_other_programs_run_at_once_must_go(kind: str) -> None:
    assert [name for name in GONE[kind] if not must_go(kind, name)] == []


@pytest.mark.parametrize("kind", STAYS)
def test_names_that_programs_need_stay(kind: str) -> None:
    assert [name for name in STAYS[kind] if must_go(kind, name)] == []


def test_repositories_their_tops_and_the_ways_to_them_are_watched(tmp_path: Path) -> None:
    for name in (".git", "a/b/.git", ".cargo", "c/.cargo", "d/bare"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("HEAD", "config"):
        (tmp_path / "d/bare" / name).write_text("")
    for name in ("objects", "refs"):
        (tmp_path / "d/bare" / name).mkdir()
    (tmp_path / "link").symlink_to("/")
    protection = Protection((str(tmp_path),))
    protection.places()
    kinds = found((str(tmp_path),), protection.repositories, 300)
    assert {path[len(str(tmp_path)) + 1 :]: kind for path, kind in kinds.items()} == {
        "": TOP,
        ".git": REPOSITORY,
        ".cargo": ".cargo",
        "a": WAY,
        "a/b": TOP,
        "a/b/.git": REPOSITORY,
        "d": WAY,
        "d/bare": REPOSITORY,
    }
    assert list(found((str(tmp_path),), protection.repositories, 1)) == [str(tmp_path)]


def test_a_repository_outside_is_not_watched(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "root/.git").symlink_to("../out")
    root = str(tmp_path / "root")
    assert dict(found((root,), (f"{root}/.git",), 300)) == {root: TOP}


def test_the_targets_of_links_are_watched(tmp_path: Path) -> None:
    for name in ("real", "a/b", "mine/cargo"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a/b/.git").symlink_to("../../real")
    (tmp_path / "a/b/.cargo").symlink_to("../../mine/cargo")
    (tmp_path / "a/b/.config").symlink_to("/")
    root = str(tmp_path)
    assert dict(found((root,), (f"{root}/a/b/.git",), 300)) == {
        root: TOP,
        f"{root}/a": WAY,
        f"{root}/real": REPOSITORY,
        f"{root}/a/b": TOP,
        f"{root}/mine": WAY,
        f"{root}/mine/cargo": ".cargo",
    }


def test_new_directories_with_protected_names_are_watched() -> None:
    below = [kind_below(TOP, name) for name in (".git", ".Cargo", "src")]
    assert below == [NEW_REPOSITORY, ".cargo", None]
    assert kind_below(REPOSITORY, ".git") is None
