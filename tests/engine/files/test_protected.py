"""What other programs run by themselves, by name and as it is on the disk."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from engine.files.protected import ROWS, Appeared, Protection

NAMES = ("config", "config.worktree", "hooks", "commondir")


def made(git: Path) -> None:
    """A repository, as far as git looks."""
    for name in ("objects", "refs"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")


def of(*repositories: Path) -> set[str]:
    return {str(each / name) for each in repositories for name in NAMES}


def places(root: Path) -> set[str]:
    return set(Protection((str(root),)).places())


def why(root: Path, name: str) -> str:
    return Protection((str(root),)).why(str(root / name))


# --- what the kernel mounts -------------------------------------------------------------------------------------------


def test_own_repository_before_it_exists(tmp_path: Path) -> None:
    assert places(tmp_path) == of(tmp_path / ".git")


def test_submodules_at_any_depth(tmp_path: Path) -> None:
    modules = tmp_path / ".git/modules"
    found = [modules / "a", modules / "libs/b", modules / "libs/b/modules/c"]
    for each in (tmp_path / ".git", *found):
        made(each)
    (modules / "link").symlink_to(tmp_path)
    assert places(tmp_path) == of(tmp_path / ".git", *found)


def test_nested_and_bare_repositories_but_none_through_links(tmp_path: Path) -> None:
    made(tmp_path / "outside/.git")
    root = tmp_path / "root"
    for name in ("libs/one", "two"):
        made(root / name / ".git")
    made(root / "two/.git/modules/m")
    made(root / "bare")
    (root / "three").mkdir()
    (root / "three/.git").write_text("gitdir: ../two/.git/modules/m\n")
    (root / "link").symlink_to(tmp_path / "outside")
    found = of(*(root / name for name in (".git", "libs/one/.git", "two/.git", "two/.git/modules/m", "bare")))
    assert places(root) == {*found, str(root / "three/.git")}


def test_git_file_of_a_worktree(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /elsewhere\n")
    assert places(tmp_path) == {str(tmp_path / ".git")}


def test_each_row_that_exists(tmp_path: Path) -> None:
    for row in ROWS:
        (tmp_path / row.name).parent.mkdir(exist_ok=True)
        (tmp_path / row.name).write_text("")
    (tmp_path / "team.code-workspace").write_text("")
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.py").write_text("")
    rows = {str(tmp_path / name) for name in (*(row.name for row in ROWS), "team.code-workspace")}
    assert places(tmp_path) == rows | of(tmp_path / ".git")


def test_scan_is_bounded(tmp_path: Path) -> None:
    made(tmp_path / ".git")
    for number in range(300):
        made(tmp_path / f".git/modules/{number}")
    place = os.open(tmp_path / ".git/modules", os.O_RDONLY)
    for _ in range(300):
        os.mkdir("down", dir_fd=place)
        inner = os.open("down", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    wide = tmp_path / "wide"
    for number in range(1_500):
        (wide / str(number)).mkdir(parents=True)
    assert len(places(tmp_path)) == 51 * len(NAMES)
    assert places(Path("/nowhere")) == of(Path("/nowhere/.git"))


# --- what the host asks about -----------------------------------------------------------------------------------------

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
    made(tmp_path / ".git")
    assert why(tmp_path, name) == ""


def test_names_above_the_session_mean_nothing(tmp_path: Path) -> None:
    root = tmp_path / ".claude/worktrees/.git/one"
    assert why(root, "config") == ""
    assert why(root, ".git/config") != ""


def test_session_in_a_bare_repository(tmp_path: Path) -> None:
    made(tmp_path)
    assert why(tmp_path, "config") != ""
    assert why(tmp_path, "hooks/update") != ""
    assert why(tmp_path, "description") == ""


def test_git_dir_of_another_name(tmp_path: Path) -> None:
    made(tmp_path / "meta")
    (tmp_path / ".git").write_text("gitdir: meta\n")
    assert why(tmp_path, "meta/config") != ""


@pytest.mark.parametrize("last", ["HEAD", "objects", "refs"])
def test_last_name_that_makes_a_repository(tmp_path: Path, last: str) -> None:
    made(tmp_path / "later")
    path = tmp_path / "later" / last
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink()
    assert why(tmp_path, "later/config") == ""
    assert "makes the directory a repository" in why(tmp_path, f"later/{last}")


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("[core]\n\thooksPath = tools/hooks", "tools/hooks/pre-commit"),
        ('[core] hookspath="tools/hooks" ; ours', "tools/hooks/pre-commit"),
        ("[include]\n\tpath = ../team.config", "team.config"),
        ('[includeIf "gitdir:/x"]\n path = ../team.config', "team.config"),
        ("[core]\n\tfsmonitor = tools/watch.sh --all", "tools/watch.sh"),
        ('[filter "x"]\n\tclean = python tools/clean.py %f', "tools/clean.py"),
        ('[alias]\n\tst = "!tools/st.sh"', "tools/st.sh"),
    ],
)
def test_what_a_configuration_names(tmp_path: Path, line: str, place: str) -> None:
    made(tmp_path / ".git")
    assert why(tmp_path, place) == ""
    (tmp_path / ".git/config").write_text(f"{line}\n")
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("")
    assert "configuration of the repository names it" in why(tmp_path, place)
    assert why(tmp_path, "other/file.py") == ""
    assert any(place.startswith(os.path.relpath(each, tmp_path)) for each in places(tmp_path))


def test_configurations_that_are_included_count(tmp_path: Path) -> None:
    made(tmp_path / ".git")
    (tmp_path / ".git/config").write_text("[include]\n\tpath = ../one.config\n")
    (tmp_path / "one.config").write_text('[include]\n\tpath = deep/two.config\n[pager]\n\tlog = "tools/show log"\n')
    for name in ("one.config", "deep/two.config", "tools/show"):
        assert "configuration of the repository names it" in why(tmp_path, name)


@pytest.mark.parametrize(
    "line",
    [
        "[pager]\n\tstatus = tools/run",
        "[interactive]\n\tdiffFilter = tools/run",
        "[core]\n\tfsmonitor = \\\n  tools/run",
        '[gpg "ssh"]\n\tdefaultKeyCommand = tools/run',
    ],
)
def test_any_key_may_name_a_program(tmp_path: Path, line: str) -> None:
    made(tmp_path / ".git")
    (tmp_path / ".git/config").write_text(f"{line}\n[remote]\n\turl = other/place\n")
    assert why(tmp_path, "tools/run") != ""
    assert why(tmp_path, "tools") != "", "a link in its place would bring all of it"
    assert why(tmp_path, "other/place") == ""


@pytest.mark.parametrize("last", ["HEAD", "refs", "refs/keep", "refs/heads/main", "objects/ab/cd"])
def test_whatever_completes_a_repository_counts(tmp_path: Path, last: str) -> None:
    made(tmp_path / "new")
    piece = tmp_path / "new" / last.partition("/")[0]
    piece.rmdir() if piece.is_dir() else piece.unlink()
    assert "makes the directory a repository" in why(tmp_path, f"new/{last}")
    assert why(tmp_path, "new/other") == ""


def test_where_a_link_of_such_a_name_leads_counts(tmp_path: Path) -> None:
    made(tmp_path / ".git")
    (tmp_path / "dev/vscode").mkdir(parents=True)
    (tmp_path / ".git/hooks").mkdir()
    for name, target in ((".envrc", "dev/envrc"), (".vscode", "dev/vscode"), (".git/hooks/update", "../../dev/update")):
        (tmp_path / name).symlink_to(target)
    (tmp_path / "dev/envrc").write_text("")
    (tmp_path / "dev/update").write_text("")
    protection = Protection((str(tmp_path),))
    targets = {str(tmp_path / "dev" / name) for name in ("envrc", "vscode", "update")}
    assert targets <= set(protection.places())
    for target in (*targets, str(tmp_path / "dev/vscode/tasks.json")):
        assert "a link leads to it" in protection.why(target)


def test_what_rows_are_in_does_not_come_at_once(tmp_path: Path) -> None:
    assert "could come with it" in why(tmp_path, ".config")
    (tmp_path / ".config").mkdir()
    assert "could come with it" in why(tmp_path, ".config"), "one that is empty can be replaced"
    (tmp_path / ".config/other").write_text("")
    assert why(tmp_path, ".config") == ""
    (tmp_path / ".config/other").unlink()
    (tmp_path / ".config").rmdir()
    (tmp_path / "dots/config/rewindow").mkdir(parents=True)
    (tmp_path / ".config").symlink_to("dots/config")
    protection = Protection((str(tmp_path),))
    assert str(tmp_path / "dots/config/rewindow") in protection.places()
    assert protection.why(str(tmp_path / "dots/config/rewindow/config.toml")) != ""


def test_nested_rows_work_trees_and_pending_operations_are_protected(tmp_path: Path) -> None:
    made(tmp_path / ".git")
    wanted = ["src/.envrc", "src/.vscode", ".git/worktrees/w/commondir", ".git/worktrees/w/gitdir", ".git/rebase-merge"]
    for name in wanted:
        (tmp_path / name).mkdir(parents=True)
    assert {str(tmp_path / name) for name in wanted} <= places(tmp_path)


def test_what_comes_later_is_found_by_its_directory(tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    protection = Protection((str(tmp_path),))
    protection.places()
    before = protection.marks()
    made(tmp_path / "libs/late/.git")
    (tmp_path / "libs/late/.git/config").write_text("")
    (tmp_path / "libs/.ENVRC").write_text("")
    assert protection.marks() != before
    assert {str(tmp_path / "libs/late/.git/config"), str(tmp_path / "libs/.ENVRC")} <= {
        each.path for each in protection.appeared(before)
    }
    assert str(tmp_path / "libs/late/.git/config") in protection.current_places()


def test_work_tree_of_a_submodule_is_not_what_its_configuration_names(tmp_path: Path) -> None:
    made(tmp_path / ".git/modules/s")
    (tmp_path / "s").mkdir()
    (tmp_path / "s/.git").write_text("gitdir: ../.git/modules/s\n")
    (tmp_path / ".git/modules/s/config").write_text("[core]\n\tworktree = ../../../s\n")
    assert why(tmp_path, "s/main.py") == ""
    (tmp_path / ".git/modules/s/config").write_text("[core]\n\tworktree = ../../../s\n\thooksPath = hook\n")
    assert why(tmp_path, "s/hook/pre-commit") != ""


# --- configurations, however they name it -----------------------------------------------------------------------------

NAMED = "configuration of the repository names it"


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("[core]\n\thooksPath = my hooks", "my hooks/pre-commit"),
        ("[include]\n\tpath = ../my team.config", "my team.config"),
        ('[filter "x"]\n\tclean = \\"tools/clean it.sh\\" %f', "tools/clean it.sh"),
        ('[alias]\n\tx = "!f() { ./tools/alias.sh; }; f"', "tools/alias.sh"),
        ("[alias]\n\tx = !cd tools && ./b.sh", "tools/b.sh"),
        ('[diff]\n\texternal = "LC_ALL=C;tools/conv.sh"', "tools/conv.sh"),
        ("[core]\n\teditor = $PWD/tools/new", "tools/new"),
        ("[core]\n\tpager = sh -c 'tools/page'", "tools/page"),
        ('[difftool "meld"]\n\tpath = tools/meld # ours', "tools/meld"),
        ('[alias]\n\tm = "!f() {\\n\\ttools/many.sh\\n}; f"', "tools/many.sh"),
        ("[alias]\n\tfile = !tools/file.sh", "tools/file.sh"),
        ("[pager]\n\tfetch = tools/pager", "tools/pager"),
        ("[core] [alias] m = !tools/m.sh", "tools/m.sh"),
        ("[init]\n\ttemplateDir = template", "template/hooks/pre-commit"),
    ],
)
def test_a_name_counts_however_it_is_written(tmp_path: Path, line: str, place: str) -> None:
    made(tmp_path / ".git")
    (tmp_path / ".git/config").write_text(f"{line}\n")
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    if "$PWD" not in line:
        (tmp_path / place).write_text("")
    assert NAMED in why(tmp_path, place)
    assert NAMED in why(tmp_path, os.path.dirname(place)) or os.path.dirname(place) == ""


def test_outer_and_neighbouring_repositories_protect_files_in_the_session(tmp_path: Path) -> None:
    root = tmp_path / "top/src"
    made(tmp_path / "top/.git")
    made(root / "libs/srv.git")
    (tmp_path / "top/.git/config").write_text("[core]\n\thooksPath = src/hooks\n[include]\n\tpath = ../src/inc\n")
    (root / "libs/srv.git/config").write_text("[core]\n\thooksPath = ../../beside\n")
    protection = Protection((str(root),))
    assert protection.why(str(root / "beside/update")) == ""
    protection.places()
    for name in ("hooks/pre-commit", "inc", "beside/update"):
        assert NAMED in protection.why(str(root / name))


def test_hooks_are_relative_to_the_work_tree_that_is_configured(tmp_path: Path) -> None:
    made(tmp_path / ".git")
    (tmp_path / ".git/config").write_text("[core]\n\tworktree = ../sub\n\thooksPath = hk\n")
    assert NAMED in why(tmp_path, "sub/hk/pre-commit")


@pytest.mark.parametrize("variable", ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "XDG_CONFIG_HOME"])
def test_the_users_own_configuration_counts_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    made(tmp_path / "root/.git")
    (tmp_path / "git").mkdir()
    (tmp_path / "git/config").write_text("[core]\n\thooksPath = hk\n")
    monkeypatch.setenv(variable, str(tmp_path if variable.startswith("XDG") else tmp_path / "git/config"))
    assert NAMED in why(tmp_path / "root", "hk/pre-commit")


def test_each_link_on_the_way_counts(tmp_path: Path) -> None:
    (tmp_path / "dev/v1").mkdir(parents=True)
    (tmp_path / "dev/v1/envrc").write_text("")
    (tmp_path / "dev/current").symlink_to("v1")
    (tmp_path / ".envrc").symlink_to("dev/current/envrc")
    (tmp_path / ".claude/hooks").mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/lint.sh").write_text("")
    (tmp_path / ".claude/hooks/lint.sh").symlink_to("../../scripts/lint.sh")
    protection = Protection((str(tmp_path),))
    protection.places()
    for name in ("dev/current", "dev/v1/envrc", "dev", "scripts/lint.sh"):
        assert "a link leads to it" in protection.why(str(tmp_path / name)), name
    assert protection.why(str(tmp_path / "dev/v1/other")) == ""


def test_a_session_in_the_directory_of_a_row_of_two_parts(tmp_path: Path) -> None:
    root = tmp_path / ".config"
    (root / "fish").mkdir(parents=True)
    assert str(root / "fish") in places(root)
    assert why(root, "fish/config.fish") != ""
    assert why(root, "autostart/new.desktop") != ""
    assert why(root, "other/file") == ""


def test_a_linked_directory_of_rows_counts_before_they_are_there(tmp_path: Path) -> None:
    (tmp_path / "dots").mkdir()
    (tmp_path / ".config").symlink_to("dots")
    protection = Protection((str(tmp_path),))
    protection.places()
    assert protection.why(str(tmp_path / "dots/fish/config.fish")) != ""
    assert protection.why(str(tmp_path / "dots/other")) == ""


@pytest.mark.parametrize("name", ["logs", "libs/refs", "objects"])
def test_a_submodule_that_is_called_as_what_a_repository_keeps(tmp_path: Path, name: str) -> None:
    made(tmp_path / ".git")
    made(tmp_path / ".git/modules" / name)
    assert of(tmp_path / ".git/modules" / name) <= places(tmp_path)


def test_this_programs_own_settings_count_wherever_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    assert "takes its rules from it" in why(tmp_path, "settings/rewindow/config.toml")
    assert why(tmp_path, "settings/other") == ""
    (tmp_path / "settings/rewindow").mkdir(parents=True)
    assert str(tmp_path / "settings/rewindow") in places(tmp_path)


def test_a_link_that_a_configuration_names_counts_as_what_it_leads_to(tmp_path: Path) -> None:
    made(tmp_path / ".git")
    (tmp_path / ".git/config").write_text("[core]\n\thooksPath = lh\n")
    (tmp_path / "real").mkdir()
    (tmp_path / "lh").symlink_to("real")
    for name in ("lh", "real/pre-commit"):
        assert NAMED in why(tmp_path, name)


def test_what_was_found_is_not_forgotten_while_it_is_there(tmp_path: Path) -> None:
    """Somebody may make so many others that it would be left out, or have it look like something else."""
    made(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/config").write_text("")
    (tmp_path / "pkg/sub").mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/envrc").write_text("")
    (tmp_path / "pkg/sub/.envrc").symlink_to("../../dev/envrc")
    protection = Protection((str(tmp_path),))
    protection.places()
    for number in range(1_100):
        (tmp_path / f"a/{number}").mkdir(parents=True)
    (tmp_path / "elsewhere/HEAD").rename(tmp_path / "kept")
    for _ in range(2):
        assert protection.why(str(tmp_path / "dev/envrc")) != ""
        assert protection.why(str(tmp_path / "elsewhere/config")) != ""
        assert str(tmp_path / "elsewhere/config") in protection.places()
    assert protection.holds_below(str(tmp_path / "elsewhere")) != ""
    assert protection.holds_below(str(tmp_path / "a")) == ""


@pytest.mark.parametrize(
    ("name", "target"),
    [
        (".config/rewindow/config.toml", "rewindow/config.toml"),
        (".gitconfig", "gitconfig"),
        (".config/git", "git/config"),
        (".bashrc", "bash/rc"),
    ],
)
def test_where_links_of_the_users_home_lead_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, target: str
) -> None:
    """As in a directory of dotfiles, which is the session's."""
    home, root = tmp_path / "home", tmp_path / "dots"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    link, there = home / name, root / target
    if name == ".config/git":
        there = root / "git"
        there.mkdir(parents=True)
    else:
        there.parent.mkdir(parents=True)
        there.write_text("")
    link.parent.mkdir(parents=True)
    link.symlink_to(there)
    protection = Protection((str(root),))
    assert str(there) in protection.places()
    assert protection.why(str(root / target)) != ""


def test_a_file_that_is_replaced_is_another_one(tmp_path: Path) -> None:
    """Though the file system may give it the same number."""
    file = tmp_path / ".envrc"
    file.write_text("one")
    protection = Protection((str(tmp_path),))
    protection.places()
    before = protection.marks()
    number = file.stat().st_ino
    for _ in range(50):
        file.unlink()
        file.write_text("another")
        if file.stat().st_ino == number:
            break
    assert protection.marks() != before


def test_a_link_that_was_replaced_appears(tmp_path: Path) -> None:
    """Because the kernel can mount nothing over a link."""
    (tmp_path / "good").write_text("")
    (tmp_path / ".envrc").symlink_to("good")
    protection = Protection((str(tmp_path),))
    protection.places()
    before = protection.marks()
    assert list(protection.appeared(before)) == []
    (tmp_path / "new").symlink_to("bad")
    (tmp_path / "new").rename(tmp_path / ".envrc")
    assert list(protection.appeared(before)) == [Appeared(str(tmp_path / ".envrc"), was_nothing=False)]


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
def test_a_repository_without_its_head_is_one_that_may_come_back(tmp_path: Path, name: str) -> None:
    made(tmp_path / ".git")
    made(tmp_path / name)
    (tmp_path / name / "config").write_text("")
    (tmp_path / name / "HEAD").rename(tmp_path / "elsewhere")
    assert str(tmp_path / name / "config") in places(tmp_path)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[core]\n\tignorecase = false ; was on D:\\\n\tfsmonitor = zz/fs\n", "zz/fs"),
        ("# comment \\\n[core]\n\thooksPath = zzh\n", "zzh/pre-commit"),
        ("[core]\n\thooksPath = hk\n", ".git/hk/post-receive"),
        ("\ufeff[core]\n\thooksPath = hk\n", "hk/pre-commit"),
        ("[alias]\n\tx = !echo \u2028 && tools/x\n", "tools/x"),
    ],
)
def test_the_syntax_of_a_configuration_is_that_of_git(tmp_path: Path, text: str, place: str) -> None:
    made(tmp_path / ".git")
    (tmp_path / ".git/config").write_text(text)
    assert NAMED in why(tmp_path, place)


def test_what_a_linked_file_includes_is_relative_to_the_link(tmp_path: Path) -> None:
    made(tmp_path / ".git")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/inc").write_text("[include]\n\tpath = more\n")
    (tmp_path / "inc").symlink_to("dev/inc")
    (tmp_path / ".git/config").write_text("[include]\n\tpath = ../inc\n")
    assert NAMED in why(tmp_path, "more")


def test_links_above_and_from_home_lead_into_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, home = tmp_path / "p/src", tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    made(tmp_path / "p/.git")
    links = {
        tmp_path / "p/.git/hooks/pre-commit": root / "tools/pc",
        tmp_path / "p/.envrc": root / "dev/envrc",
        home / ".ssh/config": root / "ssh/config",
        home / ".config/nvim/lua/x.lua": root / "nvim/x.lua",
    }
    for link, target in links.items():
        for each in (link, target):
            each.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("")
        link.symlink_to(target)
    protection = Protection((str(root),))
    protection.places()
    for target in links.values():
        assert "a link leads to it" in protection.why(str(target)), target


def test_repositories_of_work_trees_and_behind_a_git_file_are_places(tmp_path: Path) -> None:
    made(tmp_path / ".git/worktrees/w/modules/sm")
    made(tmp_path / "own/deep/gd")
    (tmp_path / "sep").mkdir()
    (tmp_path / "sep/.git").write_text("gitdir: ../own/deep/gd\n")
    found = places(tmp_path)
    assert of(tmp_path / ".git/worktrees/w/modules/sm", tmp_path / "own/deep/gd") <= found


def test_a_directory_that_changed_is_looked_at_whatever_its_time_says(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    protection = Protection((str(tmp_path),))
    protection.places()
    before, times = protection.marks(), (tmp_path / "src").stat()
    (tmp_path / "src/.envrc").write_text("")
    os.utime(tmp_path / "src", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert protection.marks() != before


def test_a_name_that_only_folds_to_a_row_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / ".config/fish").mkdir(parents=True)
    (tmp_path / ".con\ufb01g").mkdir()
    assert str(tmp_path / ".config/fish") in places(tmp_path)


def test_the_configuration_of_another_work_tree_names_files_too(tmp_path: Path) -> None:
    made(tmp_path / "project/.git")
    other = tmp_path / "project/.git/worktrees/w"
    other.mkdir(parents=True)
    (other / "config.worktree").write_text(f"[core]\n\tfsmonitor = {tmp_path}/project/tools/fs\n")
    assert NAMED in why(tmp_path / "project", "tools/fs")
