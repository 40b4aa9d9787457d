"""Rules of ignore files mean the same here, to ripgrep and to git; completed paths follow them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.files.search.commands import listing_arguments, read_names, without_excluded
from engine.files.search.ignore_files import (
    VERSION_CONTROL,
    FileRules,
    Place,
    complete_path,
    has_unseen_rules,
    place_of,
)
from engine.runtime.worker.handles.trees import Tree as GroupTree
from tests.support.searching import RIPGREP, files

NAMES = ("a", "b", "c.log", "d.txt", ".h", "src", "build", "foo bar", "x#y")
LINES = (
    "a", "b", "*.log", "/a", "/src", "src/", "build/", "*.txt", "!a", "!*.log", "!/src/a", "src/*", "src/**", "**/a",
    "**/src/b", "a/**", "!src/", "!build/", "a/b", "/a/b", "*", "!*/", "# c", "", "!c.log", "**", "/**", "**/", "*/",
    "[ab]", "[!a]", "?", "\\!n", "x\\#y", "foo bar", "foo\\ bar", "foo*", "!.h", ".h", ".*", "!.*", "/*", "!/a",
    "!src/a/", "src/**/b", "**/build/**", "a?", "d.t*", "build", "  a", "a ", "a\\ ", "[", "a[", "/", "//", "a//b",
    "\\", "**a", "a**", "a**b", "src/*/a", "!src/*/", "[a-c].log", "a\r",
)  # fmt: skip
"""All of them mean the same to git and to ripgrep, which a `{a,b}` or a lone `!` does not."""
RULES = st.lists(st.sampled_from(LINES), min_size=1, max_size=4).map("\n".join)
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)
TREES = st.fixed_dictionaries(
    {
        "files": st.lists(PATHS, min_size=1, max_size=12),
        "git": st.dictionaries(st.sampled_from(("", "a/", "src/", "src/a/", "a/b/")), RULES, max_size=3),
        "other": st.dictionaries(
            st.sampled_from((".ignore", "src/.ignore", "a/.ignore", ".rgignore", "src/.rgignore")), RULES, max_size=2
        ),
        "exclude": RULES | st.just(""),
        "repositories": st.sampled_from((("",), ("",), ("", "src/"), ("", "a/b/"), (), ("src/",))),
        "start": st.sampled_from(("", "src", "a/b", "a")),
    }
)


def ours(directory: Path, root: Path) -> list[str]:
    rules = FileRules(place_of(str(directory), (str(root),)))
    found: list[str] = []
    waiting = [""]
    while waiting:  # without recursion, because a tree may be deep
        folder = waiting.pop()
        with os.scandir(directory / folder) as entries:
            for entry in entries:
                path = f"{folder}{entry.name}"
                if entry.name in VERSION_CONTROL or entry.is_symlink():
                    continue
                if entry.is_dir():
                    waiting.append(f"{path}/")
                elif entry.is_file():
                    found.append(path)
    return sorted(path for path in found if not rules.leave_out(path))


def of_a_group(directory: Path, root: Path) -> list[str]:
    """The same by the worker's walk for groups, the second time as well, when it remembers what it has read."""
    below = "" if directory == root else f"./{directory.relative_to(root)}/"
    tree = GroupTree(str(root), f"{below}**", lambda: 0.0)
    listings = [tree.listing(), tree.listing()]
    assert listings[0] == listings[1]
    paths = (line.split(" ", 2)[2] for line in listings[0].splitlines())
    return sorted(path[len(below.removeprefix("./")) :] for path in paths)


def theirs(directory: Path, root: Path) -> list[str]:
    place = place_of(str(directory), (str(root),))
    assert not has_unseen_rules(place)
    return listed(place)


def beside_strangers(directory: Path, root: Path) -> list[str]:
    """What is found where directories above the root have ignore files, which do not count."""
    strangers = [root.parent / ".ignore", root.parent / ".gitignore"]
    for each in strangers:
        each.write_text("*\n")
    try:
        place = place_of(str(directory), (str(root),))
        assert place.strangers
        kept, _ = without_excluded(place, listed(place), str)
        return kept
    finally:
        for each in strangers:
            each.unlink()


def listed(place: Place) -> list[str]:
    done = subprocess.run([RIPGREP, *listing_arguments(place, None)], cwd=place.directory, capture_output=True)
    return sorted(read_names(done.stdout))


def has_repository_below(directory: Path) -> bool:
    return bool(subprocess.check_output(["find", ".", "-mindepth", "2", "-name", ".git"], cwd=directory))


def gits(directory: Path) -> list[str]:
    command = [
        "git",
        "-c",
        "core.excludesFile=/dev/null",
        "ls-files",
        "--others",
        "--exclude-standard",
        "-z",
        "--",
        ".",
    ]
    return sorted(os.fsdecode(name) for name in subprocess.check_output(command, cwd=directory).split(b"\0")[:-1])


def made(root: Path, tree: dict[str, object]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for repository in tree["repositories"]:
        for empty in ("objects", "refs"):
            (root / repository / ".git" / empty).mkdir(parents=True)
        files(root / repository / ".git", {"HEAD": "ref: refs/heads/main\n", "info/exclude": str(tree["exclude"])})
    rules = {**{f"{name}.gitignore": text for name, text in tree["git"].items()}, **tree["other"]}
    for name, text in [(name, "") for name in tree["files"]] + list(rules.items()):
        # A name may be a file's and a directory's; whichever came first has it.
        try:
            files(root, {name: text})
        except OSError:
            continue


@given(tree=TREES)
def test_ripgrep_and_git_list_the_same_files(tmp_path_factory: pytest.TempPathFactory, tree: dict[str, object]) -> None:
    root = tmp_path_factory.getbasetemp() / "above" / "tree"
    root.parent.mkdir(exist_ok=True)
    made(root, tree)
    directory = root / str(tree["start"])
    if not directory.is_dir():
        directory = root
    found = same(directory, root)
    if directory == root and not tree["other"] and tree["repositories"] == ("",):
        assert found == gits(root)


def same(directory: Path, root: Path) -> list[str]:
    found = theirs(directory, root)
    assert found == ours(directory, root)
    assert found == of_a_group(directory, root)
    beside = beside_strangers(directory, root)
    if has_repository_below(directory):  # where ripgrep takes the rules around a repository for its own
        assert set(beside) <= set(found)
    else:
        assert beside == found
    return found


def test_a_repository_within_another_begins_anew(tmp_path: Path) -> None:
    files(tmp_path, {
        ".git/HEAD": "", ".gitignore": "*.log\n", ".ignore": "*.tmp\n", "inner/.git/HEAD": "",
        "inner/.git/info/exclude": "x\n", "inner/a.log": "", "inner/a.tmp": "", "inner/x": "", "b.log": "",
        "inner/d/c.log": "", "inner/d/c.tmp": "", "inner/d/x": "",
    })  # fmt: skip
    assert same(tmp_path, tmp_path) == [".gitignore", ".ignore", "inner/a.log", "inner/d/c.log"]
    inner = place_of(str(tmp_path / "inner" / "d"), (str(tmp_path),))
    assert inner.strangers
    assert (
        without_excluded(inner, listed(inner), str)[0] == ours(tmp_path / "inner" / "d", tmp_path) == ["c.log", "c.tmp"]
    )


def test_the_working_tree_of_another_repository_has_its_exclude_file(tmp_path: Path) -> None:
    files(tmp_path, {
        "main/.git/info/exclude": "*.log\n", "main/.git/worktrees/two/commondir": "../..\n",
        "two/.git": f"gitdir: {tmp_path}/main/.git/worktrees/two\n", "two/a.log": "", "two/b": "",
    })  # fmt: skip
    assert same(tmp_path / "two", tmp_path / "two") == ["b"]


def test_a_gitignore_above_a_repository_says_nothing_about_it(tmp_path: Path) -> None:
    files(tmp_path, {".gitignore": "*\n", "repo/.git/HEAD": "", "repo/.gitignore": "*.log\n", "repo/src/a": ""})
    files(tmp_path, {"repo/src/b.log": ""})
    assert same(tmp_path / "repo" / "src", tmp_path / "repo") == ["a"]


def test_rules_mean_what_git_says_in_odd_places(tmp_path: Path) -> None:
    files(tmp_path, {".git/HEAD": "", ".gitignore": "*.log\nsrc/**\n!src/keep\n", "a.log": "", "d\nx/b.log": ""})
    files(tmp_path, {"src/keep": "", "src/other": "", "src/d/keep": ""})
    assert same(tmp_path, tmp_path) == [".gitignore", "src/keep"]
    (tmp_path / ".gitignore").write_text("\ufeff*.log\nsrc\n")  # which ripgrep takes for a name before version 15
    assert same(tmp_path, tmp_path) == [".gitignore"]


def test_ignore_files_count_up_to_the_workspace(tmp_path: Path) -> None:
    project = tmp_path / "home" / "project"
    files(tmp_path, {"home/.gitignore": "*\n", "home/project/.gitignore": "*.log\n"})
    files(project, {"a": "", "b.log": "", "src/c.log": "", "src/d": ""})
    assert ours(project, project) == listed(place_of(str(project), (str(project),))) == [".gitignore", "a", "src/d"]
    source = place_of(str(project / "src"), (str(project),))
    assert source.strangers
    assert without_excluded(source, listed(source), str)[0] == ours(project / "src", project) == ["d"]


def test_an_ignored_directory_that_is_named_is_searched(tmp_path: Path) -> None:
    files(tmp_path, {".gitignore": "vendor/\n*.log\n", "vendor/a": "", "vendor/b.log": ""})
    assert same(tmp_path, tmp_path) == [".gitignore"]
    assert same(tmp_path / "vendor", tmp_path) == ["a"]


def test_links_pipes_and_version_control_are_not_entered(tmp_path: Path) -> None:
    files(tmp_path, {"project/a": "", "project/.hg/x": "", "project/.svn/x": "", "project/.h/b": "", "outside/x": ""})
    project = tmp_path / "project"
    (project / "link").symlink_to(tmp_path / "outside")
    (project / "file").symlink_to(tmp_path / "outside" / "x")
    os.mkfifo(project / "pipe")
    os.mkfifo(project / ".h" / ".gitignore")
    assert of_a_group(project, project) == [".h/b", "a"]
    os.unlink(project / ".h" / ".gitignore")
    assert theirs(project, project) == of_a_group(project, project) == [".h/b", "a"]


@pytest.mark.slow
def test_a_tree_deeper_than_recursion_goes_is_walked(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(1_200):
        deep /= "d"
        deep.mkdir()
    (deep / "x").write_text("")
    assert same(tmp_path, tmp_path) == ["d/" * 1_200 + "x"]
    (deep / "x").unlink()
    while deep != tmp_path:  # because pytest would remove it by recursion
        deep.rmdir()
        deep = deep.parent


def test_rule_above_that_includes_again_overrides_kinds_below(tmp_path: Path) -> None:
    files(
        tmp_path, {"home/.ignore": "*\n", "home/plain/.ignore": "!*.log\n", "home/plain/src/.gitignore": "*.log\nb\n"}
    )
    files(tmp_path, {"home/plain/src/a.log": "", "home/plain/src/b/c": "", "home/plain/src/d": ""})
    source = place_of(str(tmp_path / "home" / "plain" / "src"), (str(tmp_path / "home" / "plain"),))
    assert without_excluded(source, listed(source), str)[0] == [".gitignore", "a.log", "d"]


@pytest.mark.parametrize("rule", ["*a" * 30 + "*b", "/" + "**/a/" * 20 + "b", "/" + "**/*a*a*/" * 20 + "b"])
def test_no_rule_takes_long_to_match(tmp_path: Path, rule: str) -> None:
    files(tmp_path, {".gitignore": f"{rule}\n"})
    rules = FileRules(place_of(str(tmp_path), (str(tmp_path),)))
    begun = time.process_time()
    assert not rules.leave_out("a" * 200)
    assert not rules.leave_out("a/" * 100 + "c")
    assert time.process_time() - begun < 1  # it was hours


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for folder in ("src/deep", "docs", "build", ".github", ".git", ".hidden"):
        (root / folder).mkdir(parents=True)
    for file in ("setup.py", "src/a.py", "src/b.pyc", ".gitignore", ".env", "src/deep/c.py", "build/out.o"):
        (root / file).write_text("x\n")
    (root / ".gitignore").write_text("build/\n*.pyc\n/.env\n")
    return root


@pytest.mark.parametrize(
    ("start", "found"),
    [
        ("", ["docs/", "setup.py", "src/"]),
        ("s", ["setup.py", "src/"]),
        ("src", ["src/"]),
        ("src/", ["src/a.py", "src/deep/"]),
        ("src//d", ["src//deep/"]),
        ("./src/de", ["./src/deep/"]),
        ("src/../do", ["src/../docs/"]),
        (".", [".github/", ".gitignore", ".hidden/"]),
        (".git", [".github/", ".gitignore"]),
        ("build/", ["build/out.o"]),
        ("nothing/", []),
        ("setup.py/", []),
        ("S", []),
        ("a\0", []),
        ("\udcff", []),
        ("x" * 5000, []),
    ],
)
def test_names_are_completed_but_for_what_is_ignored_or_hidden(root: Path, start: str, found: list[str]) -> None:
    assert complete_path(start, (str(root),)) == found
    assert complete_path(start, (str(root),), directories=True) == [each for each in found if each.endswith("/")]


def test_absolute_paths_and_further_roots(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    (other / "sub").mkdir(parents=True)
    roots = (str(root), str(other))
    assert complete_path("", roots) == [f"{other}/", "docs/", "setup.py", "src/"]
    assert complete_path(f"{tmp_path}/", roots) == [f"{root}/", f"{other}/"]
    assert complete_path(f"{other}/s", roots) == [f"{other}/sub/"]
    assert complete_path(f"{root}/doc", roots) == [f"{root}/docs/"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert complete_path("~/other/", roots) == ["~/other/sub/"]
    assert complete_path("~/", roots) == []


@pytest.mark.parametrize(
    "start", ["..", "../", "../out", "/", "/etc/", "/etc/pass", "/proc/self/", "evil/", "evil/se", "src/../../"]
)
def test_nothing_is_told_of_what_is_outside(root: Path, tmp_path: Path, start: str) -> None:
    (tmp_path / "outside" / "secret").mkdir(parents=True)
    (root / "evil").symlink_to(tmp_path / "outside")
    found = complete_path(start, (str(root),))
    assert found in ([], [f"{root}/"])


def test_links_count_as_their_targets_inside_the_roots(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    for name, target in (
        ("lnk_dir", "src"),
        ("lnk_file", "setup.py"),
        ("lnk_out", str(tmp_path / "outside")),
        ("lnk_none", str(tmp_path / "nothing")),
        ("lnk_proc", "/proc/self/environ"),
        ("lnk_self", "lnk_self"),
    ):
        (root / name).symlink_to(target)
    assert complete_path("lnk", (str(root),)) == ["lnk_dir/", "lnk_file"]
    assert complete_path("lnk_dir/d", (str(root),)) == ["lnk_dir/deep/"]


def test_what_cannot_be_opened_or_typed_is_left_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    os.mkfifo("x_pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("x_socket")
    Path("x\n").touch()
    Path(os.fsdecode(b"x\xff")).touch()
    Path("x \u202e").touch()
    Path("xé 'q\"").touch()
    assert complete_path("x", (str(root),)) == ["xé 'q\""]
