"""What other programs run by themselves, by name, as it is on the disk, and as git's configuration names it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from engine.files.git_configuration import REPOSITORY_VARIABLES, beginning_of, named_by
from engine.files.protected import (
    Appeared,
    Protection,
    _bytecode_beside,  # pyright: ignore[reportPrivateUsage] -- a link must come between the walk and this
)
from engine.files.protected_names import BY_VARIABLE, ROWS

NAMES = ("config", "config.worktree", "hooks", "commondir")
NAMED = "repository's configuration names it"
LINKED = "other programs reach this file through a link"


def lay(root: Path, entries: dict[str, str], *repositories: str) -> None:
    """Makes repositories, directories (`name/`), links (`-> target`) and files."""
    for name in repositories:
        for inner in ("objects", "refs"):
            (root / name / inner).mkdir(parents=True, exist_ok=True)
        (root / name / "HEAD").write_text("ref: refs/heads/main\n")
    for name, text in entries.items():
        path = root / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text[3:])
        elif not name.endswith("/"):
            path.write_text(text.replace("{root}", str(root)))


def of(root: Path, *repositories: str) -> set[str]:
    return {str(root / each / name) for each in repositories for name in NAMES}


def scanned(root: Path) -> Protection:
    protection = Protection((str(root),))
    protection.places()
    return protection


def places(root: Path) -> set[str]:
    return set(Protection((str(root),)).places())


def why(root: Path, name: str) -> str:
    return Protection((str(root),)).why(str(root / name))


MODULES = (".git/modules/a", ".git/modules/libs/b", ".git/modules/libs/b/modules/c")
NESTED = ("libs/one/.git", "two/.git", "two/.git/modules/m", "bare")


@pytest.mark.parametrize(
    ("repositories", "entries", "found", "files"),
    [
        ((".git", *MODULES), {".git/modules/link": "-> ../.."}, (".git", *MODULES), ()),
        (
            NESTED,
            {"three/.git": "gitdir: ../two/.git/modules/m\n", "link": "-> ../outside"},
            (".git", *NESTED),
            ("three/.git",),
        ),
        ((), {".git": "gitdir: /elsewhere\n"}, (), (".git",)),
        (
            (),
            dict.fromkeys((*(row.name for row in ROWS), "team.code-workspace", "src/main.py"), ""),
            (".git",),
            (*(row.name for row in ROWS), "team.code-workspace"),
        ),
    ],
    ids=["submodules at any depth", "nested and bare, none through links", "a work tree", "each row that exists"],
)
def test_places_are_all_repositories_and_rows(
    tmp_path: Path,
    repositories: tuple[str, ...],
    entries: dict[str, str],
    found: tuple[str, ...],
    files: tuple[str, ...],
) -> None:
    lay(tmp_path, {}, "outside/.git")
    root = tmp_path / "root"
    lay(root, entries, *repositories)
    assert places(root) == {*of(root, *found), *(str(root / name) for name in files)}


@pytest.mark.parametrize(
    ("repositories", "entries", "found"),
    [
        ((".git", ".git/modules/logs"), {}, of(Path(), ".git/modules/logs")),
        ((".git", ".git/modules/libs/refs"), {}, of(Path(), ".git/modules/libs/refs")),
        ((".git", ".git/modules/objects"), {}, of(Path(), ".git/modules/objects")),
        (
            (".git/worktrees/w/modules/sm", "own/deep/gd"),
            {"sep/.git": "gitdir: ../own/deep/gd\n"},
            of(Path(), ".git/worktrees/w/modules/sm", "own/deep/gd"),
        ),
        ((), {".config/fish/": "", ".con\ufb01g/": ""}, {".config/fish"}),
        (
            (".git",),
            dict.fromkeys(("src/.envrc/", "src/.vscode/", ".git/worktrees/w/commondir/", ".git/rebase-merge/"), ""),
            {"src/.envrc", "src/.vscode", ".git/worktrees/w/commondir", ".git/rebase-merge"},
        ),
    ],
)
def test_unusual_places_are_found(
    tmp_path: Path, repositories: tuple[str, ...], entries: dict[str, str], found: set[str]
) -> None:
    lay(tmp_path, entries, *repositories)
    assert {str(tmp_path / name) for name in found} <= places(tmp_path)


def test_scan_is_bounded(tmp_path: Path) -> None:
    lay(tmp_path, {}, ".git", *(f".git/modules/{number}" for number in range(300)))
    place = os.open(tmp_path / ".git/modules", os.O_RDONLY)
    for _ in range(300):
        os.mkdir("down", dir_fd=place)
        inner = os.open("down", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    lay(tmp_path, {f"wide/{number}/": "" for number in range(1_500)})
    assert len(places(tmp_path)) == 201 * len(NAMES)
    assert places(Path("/nowhere")) == of(Path("/nowhere"), ".git")


GIT = (
    ".git",
    ".git/config",
    ".GIT/Config",
    ".git/config.worktree",
    ".git/hooks",
    ".git/hooks/pre-commit",
    ".git/modules/s/config",
    ".git/modules/libs/s/hooks/x",
    ".git/worktrees/w/commondir",
    ".git/commondir",
    ".git/rebase-merge/git-rebase-todo",
    "nested/.git",
    "nested/deep/.git/config",
    "nested/.git/hooks/x",
)


@pytest.mark.parametrize("name", GIT)
def test_repository_by_name(tmp_path: Path, name: str) -> None:
    assert "git" in why(tmp_path, name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_rows_by_name(tmp_path: Path, row: tuple[str, str]) -> None:
    name, runs = row
    for path in (name, name.upper(), f"{name}/inner", f"deep/down/{name}"):
        assert why(tmp_path, path) == runs


@pytest.mark.parametrize(
    "name",
    [
        "main.py",
        "config",
        "hooks/x",
        "gitconfig",
        ".github/workflows/test.yml",
        ".gitignore",
        ".git/index",
        ".git/HEAD",
        ".git/refs/heads/config",
        ".git/logs/refs/heads/hooks",
        ".git/objects/ab/hooks",
        ".git/COMMIT_EDITMSG",
        "vscode/settings.json",
    ],
)
def test_ordinary_files_are_free(tmp_path: Path, name: str) -> None:
    lay(tmp_path, {}, ".git")
    assert why(tmp_path, name) == ""


def test_names_above_the_session_mean_nothing(tmp_path: Path) -> None:
    root = tmp_path / ".claude/worktrees/.git/one"
    assert why(root, "config") == ""
    assert why(root, ".git/config") != ""


@pytest.mark.parametrize(
    ("repositories", "entries", "protected", "free"),
    [
        (("",), {}, ["config", "hooks/update"], ["description"]),
        (("meta",), {".git": "gitdir: meta\n"}, ["meta/config"], []),
        (
            (".git",),
            {
                ".git/config": "[include]\n\tpath = ../one.config\n",
                "one.config": '[include]\n\tpath = deep/two.config\n[pager]\n\tlog = "tools/show log"\n',
            },
            ["one.config", "deep/two.config", "tools/show"],
            [],
        ),
        (
            (".git/modules/s",),
            {
                "s/.git": "gitdir: ../.git/modules/s\n",
                ".git/modules/s/config": "[core]\n\tworktree = ../../../s\n\thooksPath = hook\n",
            },
            ["s/hook/pre-commit"],
            ["s/main.py"],
        ),
        ((".git",), {".git/config": "[core]\n\tworktree = ../sub\n\thooksPath = hk\n"}, ["sub/hk/pre-commit"], []),
        (
            (".git",),
            {".git/config": "[core]\n\thooksPath = lh\n", "real/": "", "lh": "-> real"},
            ["lh", "real/pre-commit"],
            [],
        ),
        (
            (".git",),
            {
                "dev/inc": "[include]\n\tpath = more\n",
                "inc": "-> dev/inc",
                ".git/config": "[include]\n\tpath = ../inc\n",
            },
            ["more"],
            [],
        ),
        ((".git",), {".git/worktrees/w/config.worktree": "[core]\n\tfsmonitor = {root}/tools/fs\n"}, ["tools/fs"], []),
        ((), {".config/other": ""}, [], [".config"]),
        ((), {".config/": ""}, [".config"], []),
        ((), {}, [".config"], []),
    ],
    ids=[
        "a bare repository",
        "a git directory of another name",
        "included configurations",
        "a submodule's work tree",
        "the configured work tree",
        "a link to hooks",
        "a linked file includes",
        "another work tree's configuration",
        "a directory of rows that is not empty",
        "one that is empty can be replaced",
        "one that is not there can come with it",
    ],
)
def test_names_are_protected_by_what_is_there(
    tmp_path: Path, repositories: tuple[str, ...], entries: dict[str, str], protected: list[str], free: list[str]
) -> None:
    lay(tmp_path, entries, *repositories)
    assert [name for name in protected if why(tmp_path, name) == ""] == []
    assert [name for name in free if why(tmp_path, name) != ""] == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[core]\n\thooksPath = tools/hooks", "tools/hooks/pre-commit"),
        ('[core] hookspath="tools/hooks" ; ours', "tools/hooks/pre-commit"),
        ("[core]\n\thooksPath = my hooks", "my hooks/pre-commit"),
        ("[core]\n\thooksPath = hk\n", ".git/hk/post-receive"),
        ("\ufeff[core]\n\thooksPath = hk\n", "hk/pre-commit"),
        ("# comment \\\n[core]\n\thooksPath = zzh\n", "zzh/pre-commit"),
        ("[core]\n\tignorecase = false ; was on D:\\\n\tfsmonitor = zz/fs\n", "zz/fs"),
        ("[include]\n\tpath = ../team.config", "team.config"),
        ("[include]\n\tpath = ../my team.config", "my team.config"),
        ('[includeIf "gitdir:/x"]\n path = ../team.config', "team.config"),
        ("[core]\n\tfsmonitor = tools/watch.sh --all", "tools/watch.sh"),
        ("[core]\n\tfsmonitor = \\\n  tools/run", "tools/run"),
        ('[filter "x"]\n\tclean = python tools/clean.py %f', "tools/clean.py"),
        ('[filter "x"]\n\tclean = \\"tools/clean it.sh\\" %f', "tools/clean it.sh"),
        ('[alias]\n\tst = "!tools/st.sh"', "tools/st.sh"),
        ('[alias]\n\tx = "!f() { ./tools/alias.sh; }; f"', "tools/alias.sh"),
        ('[alias]\n\tm = "!f() {\\n\\ttools/many.sh\\n}; f"', "tools/many.sh"),
        ("[alias]\n\tx = !cd tools && ./b.sh", "tools/b.sh"),
        ("[alias]\n\tx = !echo \u2028 && tools/x\n", "tools/x"),
        ("[core] [alias] m = !tools/m.sh", "tools/m.sh"),
        ('[diff]\n\texternal = "LC_ALL=C;tools/conv.sh"', "tools/conv.sh"),
        ("[core]\n\teditor = $PWD/tools/new", "tools/new"),
        ("[core]\n\tpager = sh -c 'tools/page'", "tools/page"),
        ("[pager]\n\tfetch = tools/pager", "tools/pager"),
        ("[interactive]\n\tdiffFilter = tools/run", "tools/run"),
        ('[gpg "ssh"]\n\tdefaultKeyCommand = tools/run', "tools/run"),
        ('[difftool "meld"]\n\tpath = tools/meld # ours', "tools/meld"),
        ("[init]\n\ttemplateDir = template", "template/hooks/pre-commit"),
    ],
)
def test_file_named_in_a_configuration_is_protected(tmp_path: Path, text: str, place: str) -> None:
    lay(tmp_path, {}, ".git")
    is_new = "$PWD" in text
    assert is_new or place.startswith(".git/") or why(tmp_path, place) == ""
    lay(tmp_path, {".git/config": f"{text}\n[remote]\n\turl = other/place\n"} | ({} if is_new else {place: ""}))
    assert NAMED in why(tmp_path, place)
    folder = os.path.dirname(place)
    assert not folder or why(tmp_path, folder) != "", "a link in its place would bring all of it"
    assert why(tmp_path, "other/place") == why(tmp_path, "other/file.py") == ""
    assert is_new or any(place.startswith(os.path.relpath(each, tmp_path)) for each in places(tmp_path))


@pytest.mark.parametrize("last", ["HEAD", "objects", "refs", "refs/keep", "refs/heads/main", "objects/ab/cd"])
def test_whatever_completes_a_repository_counts(tmp_path: Path, last: str) -> None:
    lay(tmp_path, {}, "new")
    piece = tmp_path / "new" / last.partition("/")[0]
    piece.rmdir() if piece.is_dir() else piece.unlink()
    assert "makes the directory a repository" in why(tmp_path, f"new/{last}")
    assert why(tmp_path, "new/other") == why(tmp_path, "new/config") == ""


@pytest.mark.parametrize(
    ("entries", "protected", "free"),
    [
        (
            {
                "dev/envrc": "",
                "dev/update": "",
                "dev/vscode/": "",
                ".envrc": "-> dev/envrc",
                ".vscode": "-> dev/vscode",
                ".git/hooks/update": "-> ../../dev/update",
            },
            ["dev/envrc", "dev/update", "dev/vscode", "dev/vscode/tasks.json"],
            [],
        ),
        (
            {
                "dev/v1/envrc": "",
                "dev/current": "-> v1",
                ".envrc": "-> dev/current/envrc",
                "scripts/lint.sh": "",
                ".claude/hooks/lint.sh": "-> ../../scripts/lint.sh",
            },
            ["dev/current", "dev/v1/envrc", "dev", "scripts/lint.sh"],
            ["dev/v1/other"],
        ),
        ({"dots/config/rewindow/": "", ".config": "-> dots/config"}, ["dots/config/rewindow/config.toml"], []),
        ({"dots/": "", ".config": "-> dots"}, ["dots/fish/config.fish"], ["dots/other"]),
    ],
    ids=["of such a name", "each on the way", "a directory of rows", "rows that are not there yet"],
)
def test_targets_of_links_are_protected(
    tmp_path: Path, entries: dict[str, str], protected: list[str], free: list[str]
) -> None:
    lay(tmp_path, entries, ".git")
    protection = scanned(tmp_path)
    assert [name for name in protected if LINKED not in protection.why(str(tmp_path / name))] == []
    assert [name for name in free if protection.why(str(tmp_path / name)) != ""] == []
    files = {str(tmp_path / name) for name in protected if (tmp_path / name).is_file()}
    assert files <= set(protection.places())


@pytest.mark.parametrize(
    ("name", "target"),
    [
        (".config/rewindow/config.toml", "rewindow/config.toml"),
        (".gitconfig", "gitconfig"),
        (".config/git", "git/"),
        (".bashrc", "bash/rc"),
        (".ssh/config", "ssh/config"),
        (".config/nvim/lua/x.lua", "nvim/x.lua"),
    ],
)
def test_where_links_of_the_users_home_lead_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, target: str
) -> None:
    """As in a directory of dotfiles, which is the session's."""
    root = tmp_path / "dots"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    lay(root, {target: ""})
    lay(tmp_path / "home", {name: f"-> {root / target}"})
    protection = scanned(root)
    assert str(root / target) in protection.places()
    assert protection.why(str(root / target)) != ""


def test_links_above_the_session_lead_into_it(tmp_path: Path) -> None:
    root = tmp_path / "p/src"
    lay(root, {"tools/pc": "", "dev/envrc": ""})
    lay(tmp_path / "p", {".git/hooks/pre-commit": f"-> {root}/tools/pc", ".envrc": f"-> {root}/dev/envrc"}, ".git")
    protection = scanned(root)
    assert all(LINKED in protection.why(str(root / name)) for name in ("tools/pc", "dev/envrc"))


def test_outer_and_neighbouring_repositories_protect_files_in_the_session(tmp_path: Path) -> None:
    root = tmp_path / "top/src"
    lay(
        tmp_path / "top",
        {
            ".git/config": "[core]\n\thooksPath = src/hooks\n[include]\n\tpath = ../src/inc\n",
            "src/libs/srv.git/config": "[core]\n\thooksPath = ../../beside\n",
        },
        ".git",
        "src/libs/srv.git",
    )
    assert why(root, "beside/update") == ""
    protection = scanned(root)
    for name in ("hooks/pre-commit", "inc", "beside/update"):
        assert NAMED in protection.why(str(root / name))


@pytest.mark.parametrize("variable", ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "XDG_CONFIG_HOME"])
def test_the_users_own_configuration_counts_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    lay(tmp_path, {"git/config": "[core]\n\thooksPath = hk\n"}, "root/.git")
    monkeypatch.setenv(variable, str(tmp_path if variable.startswith("XDG") else tmp_path / "git/config"))
    assert NAMED in why(tmp_path / "root", "hk/pre-commit")


def test_session_in_a_directory_of_a_row(tmp_path: Path) -> None:
    root = tmp_path / ".config"
    lay(root, {"fish/": ""})
    assert str(root / "fish") in places(root)
    assert why(root, "fish/config.fish") != ""
    assert why(root, "autostart/new.desktop") != ""
    assert why(root, "other/file") == ""


def test_this_programs_own_settings_count_wherever_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    assert "reads its settings and keys from here" in why(tmp_path, "settings/rewindow/config.toml")
    assert why(tmp_path, "settings/other") == ""
    lay(tmp_path, {"settings/rewindow/": ""})
    assert str(tmp_path / "settings/rewindow") in places(tmp_path)


def test_rows_of_the_settings_count_wherever_these_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "cfg"))
    names = [row.name.removeprefix(".config/") for row in ROWS if row.name.startswith(".config/")]
    assert {"git", "python_keyring", "fish"} <= {*names}
    assert [name for name in names if not why(tmp_path, f"cfg/{name}/file")] == []
    assert why(tmp_path, "cfg") != "", "another directory could be moved there"
    lay(tmp_path, {"cfg/git/config": ""})
    held = {str(tmp_path / "cfg" / name) for name in ("rewindow", "python_keyring", "git")}
    assert held <= {*places(tmp_path)}
    protection = Protection((str(tmp_path),))
    protection.places()
    before = protection.marks()
    lay(tmp_path, {"cfg/fish/config.fish": ""})
    assert str(tmp_path / "cfg/fish/config.fish") in [each.path for each in protection.appeared(before)]


def test_what_was_found_is_not_forgotten_while_it_is_there(tmp_path: Path) -> None:
    """Somebody may make so many others that it would be left out, or have it look like something else."""
    lay(tmp_path, {"elsewhere/config": "", "dev/envrc": "", "pkg/sub/.envrc": "-> ../../dev/envrc"}, "elsewhere")
    protection = scanned(tmp_path)
    lay(tmp_path, {f"a/{number}/": "" for number in range(1_100)})
    (tmp_path / "elsewhere/HEAD").rename(tmp_path / "kept")
    for _ in range(2):
        assert protection.why(str(tmp_path / "dev/envrc")) != ""
        assert protection.why(str(tmp_path / "elsewhere/config")) != ""
        assert str(tmp_path / "elsewhere/config") in protection.places()
    assert protection.holds_below(str(tmp_path / "elsewhere")) != ""
    assert protection.holds_below(str(tmp_path / "a")) == ""


def test_what_comes_later_is_found_by_its_directory(tmp_path: Path) -> None:
    lay(tmp_path, {"libs/": ""})
    protection = scanned(tmp_path)
    before = protection.marks()
    lay(tmp_path, {"libs/late/.git/config": "", "libs/.ENVRC": ""}, "libs/late/.git")
    assert protection.marks() != before
    appeared = {each.path for each in protection.appeared(before)}
    assert {str(tmp_path / "libs/late/.git/config"), str(tmp_path / "libs/.ENVRC")} <= appeared
    assert str(tmp_path / "libs/late/.git/config") in protection.current_places()


def test_a_file_that_is_replaced_is_another_one(tmp_path: Path) -> None:
    """Though the file system may give it the same number."""
    file = tmp_path / ".envrc"
    file.write_text("one")
    protection = scanned(tmp_path)
    before, number = protection.marks(), file.stat().st_ino
    for _ in range(50):
        file.unlink()
        file.write_text("another")
        if file.stat().st_ino == number:
            break
    assert protection.marks() != before


def test_a_link_that_was_replaced_appears(tmp_path: Path) -> None:
    """Because the kernel can mount nothing over a link."""
    lay(tmp_path, {"good": "", ".envrc": "-> good"})
    protection = scanned(tmp_path)
    before = protection.marks()
    assert list(protection.appeared(before)) == []
    for content in ("-> bad", "a file"):
        lay(tmp_path, {"new": content})
        (tmp_path / "new").rename(tmp_path / ".envrc")
        assert list(protection.appeared(before)) == [Appeared(str(tmp_path / ".envrc"), was_nothing=False)]


def test_many_new_files_hide_none(tmp_path: Path) -> None:
    protection = scanned(tmp_path)
    before = protection.marks()
    many = {f"{folder}/{number}": "" for folder in (".aws", ".azure", ".claude") for number in range(30)}
    lay(tmp_path, {**many, "below/.envrc": "", ".vscode/tasks.json": "", "a.code-workspace": "", ".zed/": ""})
    found = list(protection.appeared(before))
    assert [os.path.relpath(each.path, tmp_path) for each in found[:7]] == [
        *(".aws/0", ".azure/0", ".claude/0", ".vscode/tasks.json", ".zed"),
        *("a.code-workspace", "below/.envrc"),
    ]
    assert [each for each in found if each.has_more] == [
        Appeared(str(tmp_path / name), was_nothing=True, has_more=True) for name in (".aws", ".azure", ".claude")
    ]


def test_only_a_place_that_was_watched_is_known_to_have_been_empty(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "old.sh").write_text("")
    protection = Protection((str(tmp_path),))
    protection.places()
    before = protection.marks()
    (tmp_path / ".envrc").write_text("")
    subprocess.run(["git", "-C", tmp_path, "config", "alias.t", "!./old.sh"], check=True)
    assert set(protection.appeared(before)) == {
        Appeared(str(tmp_path / ".envrc"), was_nothing=True),
        Appeared(str(tmp_path / "old.sh"), was_nothing=False),
    }


@pytest.mark.parametrize("name", ["bare.git", ".git/modules/s"])
def test_repository_without_its_head_stays_protected(tmp_path: Path, name: str) -> None:
    lay(tmp_path, {f"{name}/config": ""}, ".git", name)
    (tmp_path / name / "HEAD").rename(tmp_path / "elsewhere")
    assert str(tmp_path / name / "config") in places(tmp_path)


def test_a_change_of_configuration_that_is_included_from_outside_is_seen(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "shared"
    subprocess.run(["git", "init", "-q", root], check=True)
    (root / "hooks").mkdir()
    outside.write_text("[user]\n\tname = a\n")
    subprocess.run(["git", "-C", root, "config", "include.path", outside], check=True)
    protection = Protection((str(root),))
    assert str(root / "hooks") not in protection.places()
    before = protection.marks()
    outside.write_text(f"[core]\n\thooksPath = {root}/hooks\n")
    assert protection.marks() != before
    assert str(root / "hooks") in protection.current_places()


@pytest.mark.parametrize("where", ["", "nested"])
def test_a_work_tree_elsewhere_that_is_made_later_is_found(tmp_path: Path, where: str) -> None:
    root = tmp_path / "root"
    made = root / where
    git = ["git", "-C", made, "-c", "user.name=a", "-c", "user.email=a"]
    subprocess.run(["git", "init", "-q", made], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    protection = Protection((str(root),))
    protection.places()
    before = protection.marks()
    subprocess.run([*git, "worktree", "add", "-q", tmp_path / "elsewhere"], check=True, capture_output=True)
    assert protection.marks() != before
    assert str(made / ".git/worktrees/elsewhere/commondir") in protection.current_places()


def test_many_work_trees_are_held_as_a_whole(tmp_path: Path) -> None:
    """A statement can make some whose names come before that of the user's."""
    lay(tmp_path, {"zz.sh": "", ".git/worktrees/zz/config.worktree": "[core]\n\tfsmonitor = ./zz.sh\n"}, ".git")
    assert str(tmp_path / ".git/worktrees") not in places(tmp_path)
    for number in range(60):
        (tmp_path / f".git/worktrees/{number}").mkdir()
    assert {str(tmp_path / ".git/worktrees"), str(tmp_path / "zz.sh")} <= set(places(tmp_path))


@pytest.mark.parametrize("name", ["rebase-merge", "rebase-apply", "sequencer"])
def test_what_git_does_later_in_a_repository_below_is_found(tmp_path: Path, name: str) -> None:
    lay(tmp_path, {}, "vendor/lib/.git")
    protection = scanned(tmp_path)
    before = protection.marks()
    (tmp_path / "vendor/lib/.git" / name).mkdir()
    assert not protection.has_changed
    assert protection.marks() != before
    assert str(tmp_path / "vendor/lib/.git" / name) in protection.current_places()


def test_aliases_of_the_user_take_no_place_of_what_the_repository_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their words look like many paths; and the same include means another file in another directory."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    aliases = "".join(f"\ta{number} = !git log origin/m{number}..HEAD\n" for number in range(20))
    both = "[include]\n\tpath = extra.cfg\n"
    lay(
        tmp_path,
        {
            "home/.gitconfig": f"[alias]\n{aliases}{both}",
            "root/.git/config": f"[core]\n\thooksPath = tools/hooks\n{both}",
            "root/.git/extra.cfg": "",
            "root/tools/hooks/": "",
        },
        "root/.git",
    )
    root = tmp_path / "root"
    protection = scanned(root)
    assert {str(root / "tools/hooks"), str(root / ".git/extra.cfg")} <= set(protection.places())
    assert str(tmp_path / "home/extra.cfg") in protection.marks()


def test_a_link_that_may_not_be_read_breaks_no_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path, {".git/config": "[core]\n\thooksPath = hooks\n"}, ".git")
    for name in (".envrc", ".zed", "hooks"):
        (tmp_path / name).symlink_to("/proc/1/cwd/x")

    def refusing(path: str) -> str:
        raise PermissionError(path)

    monkeypatch.setattr(os.path, "realpath", refusing)
    found = Protection((str(tmp_path),)).places()
    assert {str(tmp_path / name) for name in (".envrc", ".zed", "hooks")} <= set(found)


def test_changed_directory_is_read_whatever_its_time_says(tmp_path: Path) -> None:
    lay(tmp_path, {"src/": ""})
    protection = scanned(tmp_path)
    before, times = protection.marks(), (tmp_path / "src").stat()
    lay(tmp_path, {"src/.envrc": ""})
    os.utime(tmp_path / "src", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert protection.marks() != before


def test_hooks_in_the_directory_of_the_session_itself_are_protected(tmp_path: Path) -> None:
    lay(tmp_path, {".git/config": "[core]\n\thooksPath = .\n", "pre-push": "", "other": ""}, ".git")
    found = scanned(tmp_path)
    assert str(tmp_path / "pre-push") in found.places()
    assert [NAMED in found.why(str(tmp_path / each)) for each in ("pre-push", "post-commit", "other")] == [1, 1, 0]


def test_the_users_configuration_is_protected_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "dot/gitconfig"))
    lay(tmp_path, {"dot/": ""})
    assert scanned(tmp_path).why(str(tmp_path / "dot/gitconfig"))
    lay(tmp_path, {"dot/gitconfig": ""})
    assert str(tmp_path / "dot/gitconfig") in places(tmp_path)


@pytest.mark.parametrize("name", ["creds.json", "{root}/creds.json"])
@pytest.mark.parametrize("variable", BY_VARIABLE)
def test_a_file_that_a_variable_names_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, name: str
) -> None:
    lay(tmp_path, {"creds.json": "", "other": ""})
    monkeypatch.setenv(variable, name.replace("{root}", str(tmp_path)))
    found = scanned(tmp_path)
    assert str(tmp_path / "creds.json") in found.places()
    assert found.why(str(tmp_path / "creds.json")) == BY_VARIABLE[variable]
    assert not found.why(str(tmp_path / "other"))


@pytest.mark.parametrize("name", ["passfile", "servicefile", "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir"])
@pytest.mark.parametrize("is_service", [False, True])
def test_a_file_that_the_address_of_a_store_names_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_service: bool
) -> None:
    lay(tmp_path, {"of store": "", "other": "", "service": f"[a]\n {name}={tmp_path}/of store\n"})
    address = f"postgresql:///x?service=a&{name}={tmp_path}/of%20store"
    if is_service:
        monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "service"))
    monkeypatch.setenv("REWINDOW_STORE", "postgresql:///x?service=a" if is_service else address)
    found = scanned(tmp_path)
    assert str(tmp_path / "of store") in found.places()
    assert found.why(str(tmp_path / "of store")) == BY_VARIABLE["PGPASSFILE"]
    assert not found.why(str(tmp_path / "other"))


def test_the_certificates_of_the_system_are_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path, {"system": ""})
    monkeypatch.setenv("REWINDOW_STORE", "postgresql://db/x?sslrootcert=system")
    assert not scanned(tmp_path).why(str(tmp_path / "system"))


@pytest.mark.parametrize("value", ["{root}/a.so:{root}/b.so", "{root}/a.so {root}/b.so", "$FOLDER/b.so", "~/b.so"])
def test_each_path_of_a_variable_is_protected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    lay(tmp_path, {"a.so": "", "b.so": ""})
    monkeypatch.setenv("FOLDER", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BASH_ENV", value.replace("{root}", str(tmp_path)))
    assert str(tmp_path / "b.so") in scanned(tmp_path).places()


@pytest.mark.parametrize("variable", REPOSITORY_VARIABLES)
def test_what_the_configuration_of_a_repository_elsewhere_names_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    lay(tmp_path, {"elsewhere/config": "[core]\n\tfsmonitor = ./tool.sh\n", "project/tool.sh": "", "project/other": ""})
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "project"))
    found = scanned(tmp_path / "project")
    assert str(tmp_path / "project/tool.sh") in found.places()
    assert not found.why(str(tmp_path / "project/other"))


@pytest.mark.parametrize("variable", REPOSITORY_VARIABLES)
def test_a_repository_that_a_variable_names_is_protected_where_git_runs_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    lay(tmp_path, {"of-git/config": "", "of-git/hooks/": "", "of-git/objects/": ""})
    monkeypatch.setenv(variable, "of-git")
    found = scanned(tmp_path)
    assert {str(tmp_path / "of-git/config"), str(tmp_path / "of-git/hooks")} <= {*found.places()}
    assert found.why(str(tmp_path / "of-git/hooks/pre-commit"))
    assert found.why(str(tmp_path / "of-git/config.worktree"))
    assert not found.why(str(tmp_path / "of-git/objects/ab"))


@pytest.mark.parametrize(
    "variables",
    [
        {"GIT_SSH_COMMAND": "./tool.sh -x"},
        {"GIT_EXTERNAL_DIFF": "{root}/tool.sh"},
        {"EDITOR": "{root}/tool.sh --wait"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "{root}/tool.sh"},
        {"GIT_TEMPLATE_DIR": "{root}/tool.sh"},
        {"GIT_CONFIG_PARAMETERS": "'core.pager'='cat' 'core.fsmonitor'='./tool.sh'"},
    ],
)
def test_what_variables_of_git_name_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    lay(tmp_path, {"tool.sh": "", ".git/config": ""}, ".git")
    assert str(tmp_path / "tool.sh") not in places(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("{root}", str(tmp_path)))
    assert str(tmp_path / "tool.sh") in places(tmp_path)


@pytest.mark.parametrize("name", ["remotes", "branches", "safe"])
def test_remotes_in_files_of_git_are_protected_and_branches_of_that_name_are_not(tmp_path: Path, name: str) -> None:
    lay(tmp_path, {f".git/{name}/origin": "", "sub/.git/config": ""}, ".git", "sub/.git")
    assert str(tmp_path / f".git/{name}") in places(tmp_path)
    assert why(tmp_path, f"sub/.git/{name}/x")
    assert not why(tmp_path, f".git/refs/{name}/origin/main")
    assert not why(tmp_path, f"sub/.git/logs/refs/{name}/origin/main")


def test_templates_in_the_directory_of_the_session_itself_are_protected(tmp_path: Path) -> None:
    lay(tmp_path, {".git/config": "[init]\n\ttemplateDir = {root}\n", "hooks/post-checkout": ""}, ".git")
    found = scanned(tmp_path)
    assert str(tmp_path / "hooks") in found.places()
    assert [NAMED in found.why(str(tmp_path / each)) for each in ("config", "hooks/x", "pre-push")] == [1, 1, 0]


@pytest.mark.parametrize("name", [".GIT", ".Git"])
def test_a_file_that_leads_to_a_repository_is_found_in_any_case(tmp_path: Path, name: str) -> None:
    lay(tmp_path, {f"sub/{name}": "gitdir: ../store", "store/config": ""}, "store")
    assert {str(tmp_path / "sub" / name), str(tmp_path / "store/config")} <= places(tmp_path)


def test_no_repository_uses_up_the_search_for_another(tmp_path: Path) -> None:
    entries = {".git/config": "", "sub/.git/config": TOO_MANY_PLACES, **FOLDERS, "zz/tool.sh": ""}
    lay(tmp_path, {**entries, "zz/.git/config": "[core]\n\tfsmonitor = ./tool.sh\n"}, ".git", "sub/.git", "zz/.git")
    assert str(tmp_path / "zz/tool.sh") in places(tmp_path)


@pytest.mark.parametrize("name", ["sitecustomize.py", "usercustomize.so", "sitecustomize.cpython-311-x86.so"])
def test_what_python_imports_at_its_start_is_protected_with_its_bytecode(tmp_path: Path, name: str) -> None:
    lay(tmp_path, {f"src/{name}": ""})
    found = scanned(tmp_path)
    assert {str(tmp_path / "src" / each) for each in (name, "__pycache__")} <= set(found.places())
    assert os.listdir(tmp_path / "src/__pycache__") == []
    stem = name.partition(".")[0]
    assert found.why(str(tmp_path / f"other/__pycache__/{stem}.cpython-311.pyc"))
    assert not found.why(str(tmp_path / "other/customize.py"))


def test_no_directory_for_bytecode_is_made_behind_a_link(tmp_path: Path) -> None:
    lay(tmp_path, {"root/src/": "", "outside/": "", "root/link": "-> ../outside"})
    assert _bytecode_beside(str(tmp_path / "root/src/sitecustomize.py")) == str(tmp_path / "root/src/__pycache__")
    _bytecode_beside(str(tmp_path / "root/link/sitecustomize.py"))
    assert [path.name for path in (tmp_path / "root/src").iterdir()] == ["__pycache__"]
    assert list((tmp_path / "outside").iterdir()) == []


def values(count: int) -> str:
    return "[alias]\n" + "".join(f"\ta{number} = log -{number}\n" for number in range(count))


FOLDERS = {f"sub/d{number}/": "" for number in range(220)}
TOO_MANY_PLACES = f"[alias]\n\tx = !{' '.join(name.removeprefix('sub/').rstrip('/') for name in FOLDERS)}\n"
UNSTAGE = "[alias]\n\tunstage = reset HEAD --\n"
NESTED_FOLDERS = [f"{'reset/' * number}" for number in range(1, 111)]
BRANCHES = "".join(f'[branch "b{n}"]\n\tremote = origin\n\tmerge = refs/heads/b{n}\n' for n in range(2_000))


@pytest.mark.parametrize(
    ("entries", "too_long"),
    [
        ({".git/config": values(999)}, ""),
        ({".git/config": values(900) + BRANCHES}, ""),
        ({".git/config": values(1_001)}, ".git/config"),
        ({".git/config": "[include]\n\tpath = ../more\n", "more": values(1_001)}, "more"),
        ({".git/config": "".join(f'[url "u{n}"]\n\tinsteadOf = x\n' for n in range(1_001))}, ".git/config"),
        ({".git/config": f"#{'x' * (1 << 20)}\n[core]\n\thooksPath = hk\n"}, ".git/config"),
        ({".git/config": "".join(f"[include]\n\tpath = ../i{n}\n" for n in range(190))}, ""),
        ({".git/config": "".join(f"[include]\n\tpath = ../i{n}\n" for n in range(201))}, "i200"),
        ({".git/config": "", "sub/.git/config": values(1_001)}, "sub/.git/config"),
        ({".git/config": "", "sub/.git/config": TOO_MANY_PLACES, **FOLDERS}, "sub/.git"),
        ({".git/config": UNSTAGE, **{f"{name}HEAD": "" for name in NESTED_FOLDERS[:90]}}, ""),
        ({".git/config": UNSTAGE, **{f"{name}HEAD": "" for name in NESTED_FOLDERS}}, ".git"),
        ({f"!{n}.code-workspace": "" for n in range(500)}, ""),
        ({f"!{n}.code-workspace": "" for n in range(501)}, "."),
        ({f"!{n}/.git": "gitdir: x" for n in range(198)}, ""),
        ({f"!{n}/.git": "gitdir: x" for n in range(201)}, "."),
    ],
)
def test_a_configuration_that_is_not_read_whole_is_named(
    tmp_path: Path, entries: dict[str, str], too_long: str
) -> None:
    lay(tmp_path, entries, ".git", "sub/.git")
    assert scanned(tmp_path).too_long == (too_long and os.path.normpath(tmp_path / too_long))


PROGRAM = "zz/t.sh"


def named(tmp_path: Path, configuration: str) -> set[str]:
    root = Path(os.path.realpath(tmp_path))
    (root / ".git").mkdir(exist_ok=True)
    (root / ".git/config").write_text(configuration.replace("{root}", str(root)))
    (root / "more").write_text("[core]\n\thooksPath = from-more\n")
    for name in (PROGRAM, "zz/deep/x", "pkg/__main__.py", "PROG", "late.js"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    return {os.path.relpath(each, root) for each in named_by(str(root / ".git"), str(root), (str(root),), set())}


@pytest.mark.parametrize(
    ("configuration", "program"),
    [
        ('[remote "o"]\n\turl = ext::sh zz/t.sh', PROGRAM),
        ('[remote "o"]\n\tpushurl = ext::sh% zz/t.sh', PROGRAM),
        ('[branch "main"]\n\tremote = ext::sh zz/t.sh', PROGRAM),
        ('[url "ext::sh zz/t.sh "]\n\tinsteadOf = x:', PROGRAM),
        ('[url "ext::sh zz"]\n\tinsteadOf = x:\n[remote "o"]\n\turl = x:/t.sh', PROGRAM),
        ("[alias]\n\tx = !sh zz/'t'.sh", PROGRAM),
        ('[alias]\n\tx = !sh zz/\\"t\\".sh', PROGRAM),
        ("[alias]\n\tx = !sh zz/\\\\t.sh", PROGRAM),
        ("[alias]\n\tx = !awk -fPROG", "PROG"),
        ("[alias]\n\tx = !cd zz && cd deep && ./x", "zz/deep/x"),
        ("[alias]\n\tx = !python3 pkg", "pkg/__main__.py"),
        ("[alias]\n\tx = !node pkg", "pkg/index.js"),
        ("[alias]\n\tx = !node zz/late", "zz/late.js"),
        ("[alias]\n\tx = !node late", "late.js"),
        ("[alias]\n\tx = !ruby -r./zz/late", "zz/late.rb"),
        ("[alias]\n\tx = -c core.hooksPath=zz commit", "zz"),
        ("[alias]\n\tx = !git -c core.hooksPath='zz' commit", "zz"),
        ("[alias]\n\tx = -c remote.o.url=ext::zz/t.sh fetch o", PROGRAM),
        ('[alias]\n\tx = "!git -c \\"core.hooksPath=a b\\" commit"', "a b"),
        ('[alias]\n\tx = "!sh -c \'git -c \\"core.hooksPath=a b\\" commit\'"', "a b"),
        ("[alias]\n\tx = !X=hooks git --config-env=core.hooksPath=X commit", "hooks"),
        ("[alias]\n\tx = !GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=hooks git commit", "hooks"),
        ("[alias]\n\tx = !git --exec-path=zz st", "zz"),
        ("[alias]\n\tx = !GIT_EXEC_PATH=bin git st", "bin"),
        ("[alias]\n\tx = !PATH=zz:$PATH tool", "zz"),
        ("[alias]\n\tx = !GIT_CONFIG_GLOBAL=late git st", "late"),
        ("[alias]\n\tx = !GIT_CONFIG_GLOBAL=more git st", "from-more"),
        ('[alias]\n\tx = !\\"$(git rev-parse --show-toplevel)\\"/zz/new', "zz/new"),
        ("[core]\n\thooksPath = %(prefix)/..{root}/hooks", "hooks"),
        ("[core]\n\thooksPath = %(prefix)/../..{root}/hooks", "hooks"),
        ("[include]\n\tpath = %(prefix)/..{root}/more", "from-more"),
        ("[core]\n\thooksPath = :(optional)hooks", "hooks"),
        ("[remotes]\n\tdefault = o ext::zz/t.sh", PROGRAM),
        ("[remote]\n\tpushDefault = ext::zz/t.sh", PROGRAM),
    ],
)
def test_program_is_found_however_it_is_named(tmp_path: Path, configuration: str, program: str) -> None:
    assert program in named(tmp_path, configuration)


@pytest.mark.parametrize(
    ("configuration", "script"),
    [
        ("[core]\n\tfsmonitor = python3 mon.py", "mon.py"),
        ("[core]\n\teditor = sh ed", "ed"),
        ("[core]\n\tsshCommand = tunnel ssh.sh", "ssh.sh"),
        ('[filter "x"]\n\tclean = sh clean.sh %f', "clean.sh"),
        ("[alias]\n\tx = !cd zz && sh new", "zz/new"),
        ("[alias]\n\tx = !env -S 'timeout 5 bash new'", "new"),
        ('[alias]\n\tx = "!f() { . new; }; f >out"', "new"),
        ("[alias]\n\tx = !node --require=new -e 1", "new"),
        ("[alias]\n\tx = !node new", "new.js"),
        ("[alias]\n\tx = !true '' && sh new", "new"),
        ('[remote "o"]\n\turl = ext::sh new', "new"),
    ],
)
def test_script_that_is_not_there_yet_is_named(tmp_path: Path, configuration: str, script: str) -> None:
    assert script in named(tmp_path, configuration)


@pytest.mark.parametrize(
    "configuration",
    [
        "[alias]\n\tx = !cat NOTES.md",
        "[alias]\n\tx = !sh -c 'cat NOTES.md' >out.sh",
        "[init]\n\tdefaultBranch = main",
        "[credential]\n\thelper = cloud.sh",
        "[alias]\n\tx = !GIT_WORK_TREE=src GIT_DIR=.git git st",
    ],
)
def test_other_words_name_no_file_that_is_not_there(tmp_path: Path, configuration: str) -> None:
    assert not named(tmp_path, configuration) & {"NOTES.md", "out.sh", "main", "cloud.sh", "src", ".git"}


@pytest.mark.parametrize(
    "value",
    ["a" * 100_000, "a." * 50_000, "=a." * 30_000, "a\\\n" * 30_000, '"a\\\n' * 30_000],
    ids=["a word", "dots", "equals signs", "lines", "quoted lines"],
)
def test_no_value_takes_long_to_read(tmp_path: Path, value: str) -> None:
    begun = time.process_time()
    assert named(tmp_path, f"[alias]\n\tx = {value}\n[core]\n\teditor = sh ed") >= {"ed"}
    assert time.process_time() - begun < 10  # it was minutes


def test_of_many_values_the_first_are_read(tmp_path: Path) -> None:
    many = "".join(f"\tx = !sh {number}.sh\n" for number in range(1_100))
    found = named(tmp_path, f"[alias]\n{many}{many}[core]\n\teditor = sh ed")
    assert {"0.sh", "900.sh"} <= found
    assert not {"1000.sh", "ed"} & found


def test_many_words_and_directories_take_no_longer_than_allowed(tmp_path: Path) -> None:
    folders = [f"d{number}" for number in range(100)]
    for each in folders:
        (tmp_path / each).mkdir()
    words = " ".join([*folders, *(f"w{number}" for number in range(300))])
    entries = "".join(f"\tx{number} = {number} {words}\n" for number in range(100))
    begun = time.process_time()
    assert named(tmp_path, f"[core]\n\teditor = sh ed\n[alias]\n{entries}") >= {"ed"}
    assert time.process_time() - begun < 10  # it was minutes


def test_values_on_several_lines_are_joined(tmp_path: Path) -> None:
    values = ["sh \\\na", 'sh "b\\\n c"', "sh d # \\\n\ty = sh e", "sh \\\\\n\ty = sh g", 'sh "h # \\\n i"']
    found = set[str]().union(*(named(tmp_path, f"[alias]\n\tx = !{value}") for value in values))
    assert {"a", "c", "d", "e", "g", "i"} <= found


def test_plain_urls_name_no_program(tmp_path: Path) -> None:
    urls = '[remote "o"]\n\turl = zz/t.sh\n\tpushurl = https://host/zz/t.sh\n[branch "main"]\n\tremote = o'
    assert named(tmp_path, urls) == set()


def test_what_was_found_stands_while_places_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Because the host asks while a thread looks."""
    lay(tmp_path, {".envrc": "-> real", "real": ""}, ".git")
    protection = scanned(tmp_path)
    reason = protection.why(str(tmp_path / "real"))
    asked: list[str] = []

    def ask(*_: object) -> list[str]:
        monkeypatch.setattr("engine.files.protected.named_by", lambda *_: [])
        asked.append(protection.why(str(tmp_path / "real")))
        return []

    monkeypatch.setattr("engine.files.protected.named_by", ask)
    protection.places()
    assert LINKED in reason
    assert asked == [reason]


def test_a_pipe_that_was_a_file_a_moment_ago_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "config")
    monkeypatch.setattr(os.path, "isfile", lambda _: True)  # as a check before the swap would say
    assert beginning_of(str(tmp_path / "config")) == ""


@pytest.mark.parametrize("before", [(), ("libs/one",), ("libs/one", "two")])
@pytest.mark.parametrize("of", ["", "worktrees/w/", "modules/outer/", "worktrees/w/modules/outer/"])
def test_a_submodule_that_is_cloned_later_is_found(tmp_path: Path, of: str, before: tuple[str, ...]) -> None:
    """In a work tree elsewhere nothing else in the session's directory changes."""
    repository = tmp_path / ".git" / of
    for each in ("", "worktrees/w", *(f"{of}modules/{name}" for name in before)):
        (tmp_path / ".git" / each).mkdir(parents=True, exist_ok=True)
        (tmp_path / ".git" / each / "HEAD").touch()
    repository.mkdir(parents=True, exist_ok=True)
    (repository / "HEAD").touch()
    protection = Protection((str(tmp_path),))
    marks = protection.marks() if protection.places() else {}
    time.sleep(0.02)  # a file system may count time in ticks
    made = repository / "modules/libs/later"
    made.mkdir(parents=True)
    (made / "config").touch()
    assert protection.marks() != marks
    assert str(made / "config") in protection.current_places()


def test_a_submodule_that_is_still_being_cloned_is_found_when_it_is_whole(tmp_path: Path) -> None:
    made = tmp_path / ".git/worktrees/w/modules/libs/later"
    made.mkdir(parents=True)
    protection = Protection((str(tmp_path),))
    protection.places()
    time.sleep(0.02)  # as above
    (made / "config").touch()
    assert str(made / "config") in protection.current_places()


def test_files_deep_in_a_directory_that_appeared_are_reported(tmp_path: Path) -> None:
    protection = scanned(tmp_path)
    before = protection.marks()
    here = os.getcwd()
    (tmp_path / ".vscode/a").mkdir(parents=True)
    (tmp_path / ".vscode/a/tasks.json").touch()
    (tmp_path / ".vscode/link").symlink_to("a")
    try:
        os.chdir(tmp_path / ".vscode")
        for _ in range(1_500):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    try:
        found = {each.path for each in protection.appeared(before)}
    finally:
        subprocess.run(["rm", "-r", str(tmp_path / ".vscode")], check=True)  # too deep for Python
    assert found == {str(tmp_path / ".vscode" / each) for each in ("link", "a/tasks.json")}


CLOSES: Final = """
import os, sys
from engine.files.protected import Protection
from engine.runtime.sandbox.entering import keep_only
keep_only(())  # root may list every directory
root, mode = sys.argv[1], int(sys.argv[2], 8)
closed, place = f"{root}/work", f"{root}/work/app/.git/config"
known = Protection((root,))
assert place in known.places() and closed not in known.places()
before = known.marks()
os.chmod(closed, mode)
assert known.marks() != before, "so that a living worker gets it too"
for each in (known.places(), known.current_places()):
    assert place in each and closed in each
assert known.holds_below(closed)
assert closed in Protection((root,)).places()
os.chmod(closed, 0o755)
for each in (known.places(), known.current_places(), Protection((root,)).places()):
    assert place in each and closed not in each
os.remove(place)
os.rename(closed, f"{root}/old")
assert place not in known.places()
"""


@pytest.mark.parametrize("mode", ["0", "111", "644", "200"])
def test_a_directory_that_may_not_be_listed_is_held_with_what_was_found_in_it(tmp_path: Path, mode: str) -> None:
    lay(tmp_path, {"work/app/.git/config": ""}, "work/app/.git")
    command = [sys.executable, "-c", CLOSES, str(tmp_path), mode]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


SHUTS: Final = """
import os, sys
from engine.files.installation import Installation
from engine.files.protected import Protection
from engine.runtime.sandbox.entering import keep_only
keep_only(())  # root may read everything
root, shut = sys.argv[1:]
installation = Installation((f"{root}/tools/venv",))
known = Protection((root,), installation)
known.places()
assert known.shut == ""
os.chmod(shut, 0)
found = Protection((root,), installation)
for each in (known, found):
    each.places()
    assert each.shut == shut, each.shut
os.chmod(shut, 0o755)
for each in (known, found):
    each.places()
    assert each.shut == ""
"""


@pytest.mark.parametrize(
    "shut",
    [
        "",
        ".git",
        ".git/config",
        ".git/worktrees",
        ".git/worktrees/w",
        ".git/worktrees/w/config.worktree",
        ".git/modules",
        ".git/modules/lib",
        "deep/app/.git",
        "tools",
    ],
)
def test_a_part_of_a_repository_that_its_owner_may_not_read_is_named(tmp_path: Path, shut: str) -> None:
    files = (".git/config", ".git/worktrees/w/config.worktree", ".git/modules/lib/config", "deep/app/.git/config")
    lay(tmp_path, {**dict.fromkeys(files, ""), "tools/venv/pyvenv.cfg": ""}, ".git", "deep/app/.git")
    command = [sys.executable, "-c", SHUTS, str(tmp_path), os.path.join(tmp_path, shut).rstrip("/")]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_files_that_one_configuration_names_are_bounded(tmp_path: Path) -> None:
    names = [f"s{number}.sh" for number in range(150)]
    aliases = "".join(f"\ta{number} = !./{name}\n" for number, name in enumerate(names))
    lay(tmp_path, {".git/config": f"[alias]\n{aliases}", **dict.fromkeys(names, "")}, ".git")
    named = [each for each in places(tmp_path) if each.endswith(".sh")]
    assert len(named) == 100
