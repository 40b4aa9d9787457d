"""Our own walk and ripgrep search the same files, and agree with git; files are read in blocks."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.files.search.commands import can_search, listing_arguments
from engine.files.search.ignore_files import IGNORE_FILES, VERSION_CONTROL, place_of
from engine.files.search.walk import search
from engine.files.search.walk.dialect import compiled
from engine.files.search.walk.search import Rules, Searcher, Tree, opened
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
    place = place_of(str(directory), (str(root),))
    before = os.getcwd()
    os.chdir(directory)
    try:
        rules = Rules(IGNORE_FILES, place.in_repository)
        for each in place.above:
            rules = rules.within(each, below=os.path.relpath(directory, each) + "/")
        return sorted(Tree(rules, None, frozenset(VERSION_CONTROL), print).files())
    finally:
        os.chdir(before)


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
    assert can_search(place)
    done = subprocess.run([RIPGREP, *listing_arguments(place, None)], cwd=directory, capture_output=True)
    return sorted(os.fsdecode(name)[2:] for name in done.stdout.split(b"\0")[:-1])


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
    for repository in tree["repositories"]:  # type: ignore
        for empty in ("objects", "refs"):
            (root / repository / ".git" / empty).mkdir(parents=True)
        files(root / repository / ".git", {"HEAD": "ref: refs/heads/main\n", "info/exclude": str(tree["exclude"])})
    rules = {**{f"{name}.gitignore": text for name, text in tree["git"].items()}, **tree["other"]}  # type: ignore
    for name, text in [(name, "") for name in tree["files"]] + list(rules.items()):  # type: ignore
        # A name may be a file's and a directory's; whichever came first has it.
        try:
            files(root, {name: text})
        except OSError:
            continue


@given(tree=TREES)
def test_both_ways_and_git_list_the_same_files(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, object]
) -> None:
    root = tmp_path_factory.getbasetemp() / "tree"
    made(root, tree)
    directory = root / str(tree["start"])
    if not directory.is_dir():
        directory = root
    found = ours(directory, root)
    assert found == theirs(directory, root)
    assert found == of_a_group(directory, root)
    if directory == root and not tree["other"] and tree["repositories"] == ("",):
        assert found == gits(root)


@pytest.mark.slow
@settings(max_examples=1_000)
@given(tree=TREES)
def test_both_ways_and_git_agree_on_random_trees(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, object]
) -> None:
    test_both_ways_and_git_list_the_same_files.hypothesis.inner_test(tmp_path_factory, tree)  # type: ignore


def both(directory: Path, root: Path) -> list[str]:
    found = ours(directory, root)
    assert found == of_a_group(directory, root)
    assert found == theirs(directory, root)
    return found


def test_a_repository_within_another_begins_anew(tmp_path: Path) -> None:
    files(tmp_path, {
        ".git/HEAD": "", ".gitignore": "*.log\n", ".ignore": "*.tmp\n", "inner/.git/HEAD": "",
        "inner/.git/info/exclude": "x\n", "inner/a.log": "", "inner/a.tmp": "", "inner/x": "", "b.log": "",
        "inner/d/c.log": "", "inner/d/c.tmp": "", "inner/d/x": "",
    })  # fmt: skip
    assert both(tmp_path, tmp_path) == [".gitignore", ".ignore", "inner/a.log", "inner/d/c.log"]
    assert not can_search(place_of(str(tmp_path / "inner" / "d"), (str(tmp_path),)))
    assert ours(tmp_path / "inner" / "d", tmp_path) == ["c.log", "c.tmp"]


def test_the_working_tree_of_another_repository_has_its_exclude_file(tmp_path: Path) -> None:
    files(tmp_path, {
        "main/.git/info/exclude": "*.log\n", "main/.git/worktrees/two/commondir": "../..\n",
        "two/.git": f"gitdir: {tmp_path}/main/.git/worktrees/two\n", "two/a.log": "", "two/b": "",
    })  # fmt: skip
    assert both(tmp_path / "two", tmp_path / "two") == ["b"]


def test_a_gitignore_above_a_repository_says_nothing_about_it(tmp_path: Path) -> None:
    files(tmp_path, {".gitignore": "*\n", "repo/.git/HEAD": "", "repo/.gitignore": "*.log\n", "repo/src/a": ""})
    files(tmp_path, {"repo/src/b.log": ""})
    assert both(tmp_path / "repo" / "src", tmp_path / "repo") == ["a"]


def test_rules_mean_what_git_says_in_odd_places(tmp_path: Path) -> None:
    files(tmp_path, {".git/HEAD": "", ".gitignore": "*.log\nsrc/**\n!src/keep\n", "a.log": "", "d\nx/b.log": ""})
    files(tmp_path, {"src/keep": "", "src/other": "", "src/d/keep": ""})
    assert both(tmp_path, tmp_path) == [".gitignore", "src/keep"]
    (tmp_path / ".gitignore").write_text("\ufeff*.log\nsrc\n")  # which ripgrep takes for a name before version 15
    assert ours(tmp_path, tmp_path) == [".gitignore"]


def test_ignore_files_count_up_to_the_workspace(tmp_path: Path) -> None:
    project = tmp_path / "home" / "project"
    files(tmp_path, {"home/.gitignore": "*\n", "home/project/.gitignore": "*.log\n"})
    files(project, {"a": "", "b.log": "", "src/c.log": "", "src/d": ""})
    assert both(project, project) == [".gitignore", "a", "src/d"]
    assert not can_search(place_of(str(project / "src"), (str(project),)))
    assert ours(project / "src", project) == ["d"]


def test_an_ignored_directory_that_is_named_is_searched(tmp_path: Path) -> None:
    files(tmp_path, {".gitignore": "vendor/\n*.log\n", "vendor/a": "", "vendor/b.log": ""})
    assert both(tmp_path, tmp_path) == [".gitignore"]
    assert both(tmp_path / "vendor", tmp_path) == ["a"]


def test_links_pipes_and_version_control_are_not_entered(tmp_path: Path) -> None:
    files(tmp_path, {"project/a": "", "project/.hg/x": "", "project/.svn/x": "", "project/.h/b": "", "outside/x": ""})
    project = tmp_path / "project"
    (project / "link").symlink_to(tmp_path / "outside")
    (project / "file").symlink_to(tmp_path / "outside" / "x")
    os.mkfifo(project / "pipe")
    os.mkfifo(project / ".h" / ".gitignore")
    assert ours(project, project) == [".h/b", "a"]
    for each in ("file", "pipe"):  # as if it had become that since it was listed
        with pytest.raises(OSError), opened(str(project / each)):  # noqa: PT011 -- whatever the reason
            pass
    os.unlink(project / ".h" / ".gitignore")
    assert both(project, project) == [".h/b", "a"]


def test_unreadable_places_are_reported_like_ripgrep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path, {"a": "", "locked/b": "", "c": ""})
    for each in (tmp_path, *tmp_path.parents[:2]):
        each.chmod(0o755)
    for each in ("locked", "c"):
        (tmp_path / each).chmod(0)
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    tree = Tree(Rules(IGNORE_FILES, False), None, frozenset(), said.append)
    rights = os.geteuid()
    os.seteuid(rights or 65_534)
    try:
        assert list(tree.files()) == ["a", "c"]
        with pytest.raises(PermissionError), opened("c"):
            pass
    finally:
        os.seteuid(rights)
        (tmp_path / "locked").chmod(0o755)
    assert said == ["rg: ./locked: Permission denied (os error 13)"]
    assert tree.failed


@pytest.mark.slow
def test_a_tree_deeper_than_recursion_goes_is_walked(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(1_200):
        deep /= "d"
        deep.mkdir()
    (deep / "x").write_text("")
    assert both(tmp_path, tmp_path) == ["d/" * 1_200 + "x"]
    (deep / "x").unlink()
    while deep != tmp_path:  # because pytest would remove it by recursion
        deep.rmdir()
        deep = deep.parent


def printed(data: bytes, pattern: str = "x", context: int = 0) -> bytes:
    return Searcher(*compiled(pattern), context, 20).search(io.BytesIO(data))


@pytest.mark.parametrize("size", range(1, 12))
def test_the_block_size_does_not_change_the_lines(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    data = "a\r\nb\nx é\n\n日本 x\nc\nd\ne\nf\nx\xfc".encode()
    whole = printed(data, context=1)
    assert whole == "2-b\n3:x é\n4-\n5:日本 x\n6-c\n--\n9-f\n10:xü\n".encode()
    wide = "\ufeffa\nx 日\nb\n".encode("utf-16-le")
    monkeypatch.setattr(search, "BLOCK", size + 2)
    assert printed(data, context=1) == whole
    assert printed(wide, context=1) == "1-a\n2:x 日\n3-b\n".encode()
    assert printed(b"\xef\xbb\xbfx\n", "^x") == b"1:x\n"
    assert printed(b"\xffx\n") == b"1:\xffx\n"


def test_a_very_long_line_is_searched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "BLOCK", 4)
    monkeypatch.setattr(search, "LONGEST", 10)
    assert printed(b"a" * 100 + b"x" + b"a" * 100 + b"x" + b"a" * 50 + b"\nb\nx\n").splitlines()[1:] == [b"3:x"]


def test_what_follows_a_nul_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "BLOCK", 4)
    file = io.BytesIO(b"x\nx\n\0" + b"x" * 100)
    assert Searcher(*compiled("x"), 0, 20).search(file) == b""
    assert file.tell() < 20
