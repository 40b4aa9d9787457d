"""Paths and URIs that try to leave the roots: none succeeds, and no reply reveals what is outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from mcp_tools.access import Roots
from mcp_tools.tools.views import NO_HANDLES
from tests.support.mcp_clients import ERAS, Caller, Era, process, served, text_of

pytestmark = pytest.mark.anyio
ODD_NAMES = (
    "na me.txt",
    " ",
    "it's.txt",
    'q"q.txt',
    "..a",
    "a..b",
    "...",
    "日本.txt",
    "back\\slash.txt",
    "C:",
    "%2e%2e",
    "%",
    "{x}.txt",
    "[a].txt",
    "*",
    "#x",
    "b.txt:1",
    "-x",
    "mcp:x",
    "file:x",
    "line\nbreak",
    "n" * 255,
)
"""Valid file names with a special meaning elsewhere."""
OUTSIDE = (
    "{tmp}/project-evil/secret",
    "{tmp}/project2/secret",
    "../project-evil/secret",
    "./../project2/secret",
    "src/../../project2/secret",
    "inner/../../project2/secret",
    "nothing/../../project2/secret",
    "{tmp}/project/../project2/secret",
    "{tmp}/linked/../project2/secret",
    "file://{tmp}/project2/secret",
    "evil",
    "evil/",
    "evil/secret",
    "evil/.",
    "third",
    "third/",
    "inner/up/project2/secret",
    "/proc/self/root{tmp}/project2/secret",
    "/proc/self/environ",
    "/proc/1/environ",
    "/proc/self/fd/0",
    "/dev/stdin",
    "/dev/zero",
    "//etc/passwd",
    "/c/Windows",
    "/mnt/c/Windows",
    "/",
    "..",
    "{tmp}",
    "~",
    "~/secret",
    "~root",
)
NOT_THERE = (
    "src\\one.py",
    "..\\project2\\secret",
    "a.txt\\..\\..\\project2\\secret",
    "C:\\Windows\\win.ini",
    "c:/Windows",
    "\\\\server\\share\\x",
    "%2e%2e/project2/secret",
    "..%2fproject2%2fsecret",
    "$HOME",
    "$(ls)",
    "~nobody-of-that-name/x",
)
"""Paths elsewhere in the syntax of other systems or programs; here they are names of missing files."""
NO_RESOURCES = (
    "view://%62",
    "view://../a",
    "view://a/../a",
    "view://a%2f..",
    "view://%2e%2e",
    "view://a\0",
    "view://a%00",
    "view://C:\\a",
    "view://a\\",
    "VIEW://a",
    "view:///a",
    "view:a",
    "view://a?x",
    "view://a#x",
    "view://user@a",
    "view://{name}",
    " view://a",
    "view://a\n",
    "view://é",
    "view://" + "a" * 5000,
    "changes://-1",
    "changes://0x1",
    "changes://٣",
    "changes://" + "9" * 64,
    "timeline://",
    "timeline://session/",
    "file://{tmp}/project/a.txt",
    "file:///etc/passwd",
    "",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "a.txt").write_text("one\ntwo\n")
    (root / "src" / "one.py").write_text("one = 1\n")
    for name in ("project-evil", "project2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret").write_text("SECRET\n")
    (tmp_path / "linked").symlink_to(root)
    (root / "inner").symlink_to("src")
    (root / "src" / "up").symlink_to("../..")
    (root / "evil").symlink_to(tmp_path / "project-evil")
    (root / "first").symlink_to(tmp_path / "project2" / "secret")
    (root / "second").symlink_to("first")
    (root / "third").symlink_to("inner/../second")
    return root


async def refusals(caller: Caller, path: str) -> list[str]:
    """The replies for the path as a view and as a group member."""
    seen = [await caller.error("view", path=path)]
    seen.append(text_of(await caller.result("group", name="g", add=[path])))
    if await caller.text("view") != NO_HANDLES:
        await caller.text("group", name="g", close=True)
    return seen


@pytest.mark.parametrize("era", ERAS)
async def test_paths_cannot_leave_the_roots(project: Path, tmp_path: Path, era: Era) -> None:
    async with served(project, era=era) as caller:
        for given in OUTSIDE:
            path = given.format(tmp=tmp_path)
            said, grouped = await refusals(caller, path)
            assert "outside the workspace" in said, path
            assert "SECRET" not in said + grouped, path
            assert "root:" not in said + grouped, path
        assert await caller.text("view") == NO_HANDLES


async def test_refusal_does_not_reveal_existence(project: Path, tmp_path: Path) -> None:
    async with served(project) as caller:
        for there, nothing in (
            ("evil/secret", "evil/nothing"),
            ("../project2/secret", "../project2/nothing"),
            (f"{tmp_path}/project2/secret", f"{tmp_path}/nowhere/at/all"),
        ):
            told, also = await caller.error("view", path=there), await caller.error("view", path=nothing)
            assert told.partition(" cannot be read: ")[2] == also.partition(" cannot be read: ")[2] != ""


async def test_refusal_of_a_long_path_keeps_its_reason(tmp_path: Path) -> None:
    place = tmp_path / ("long" * 40) / ("deep" * 40)
    project = place / "project"
    project.mkdir(parents=True)
    async with served(project) as caller:
        told = await caller.error("view", path=str(place / "secret"))
        shown, verb, reason = told.partition(" cannot be read: ")
        assert verb
        assert reason.startswith("the path is outside the workspace ")
        assert len(shown) <= 60
        assert len(told) < 400
        assert await caller.error("view", path="no;such") == "no file no;such."
        long = "no;such/" * 40
        assert await caller.error("view", path=f"{long}file") == f"no file {long[:59]}…."


async def test_foreign_path_syntax_names_no_file(project: Path) -> None:
    async with served(project) as caller:
        for path in NOT_THERE:
            assert await caller.error("view", path=path) == f"no file {path}."


async def test_odd_file_names_open(project: Path) -> None:
    async with served(project) as caller:
        for name in ODD_NAMES:
            (project / name).write_text(f"this is {len(name)}\n")
        for name in ODD_NAMES:
            shown = await caller.text("view", path=name, name="v")
            assert shown.endswith(f"\n1\tthis is {len(name)}\n"), name
            assert shown.count("\n") == 2, name
            assert f"this is {len(name)}" in await caller.text("view", path=str(project / name), name="v"), name


async def test_all_spellings_of_inner_paths_open(project: Path, tmp_path: Path) -> None:
    async with served(project) as caller:
        for path in (
            "./a.txt",
            ".//a.txt",
            "src/../a.txt",
            "inner/../a.txt",
            "evil/../a.txt",
            str(project / "a.txt"),
            f"file://{project}/a.txt",
            str(tmp_path / "linked" / "a.txt"),
            str(tmp_path / "project2" / ".." / "project" / "a.txt"),
        ):
            assert "two" in await caller.text("view", path=path), path
        assert "one = 1" in await caller.text("view", path="inner/one.py")


@pytest.mark.parametrize("era", ERAS)
async def test_hostile_uris_are_unknown(project: Path, tmp_path: Path, era: Era) -> None:
    async with served(project, era=era) as caller:
        await caller.text("view", path="a.txt", name="a")
        for given in NO_RESOURCES:
            uri = given.replace("{tmp}", str(tmp_path))
            with pytest.raises(MCPError) as refused:
                await caller.client.read_resource(uri)
            assert refused.value.error.code == -32602, uri
            assert len(refused.value.error.message) < 400, uri


async def test_relative_paths_start_at_first_root(project: Path, tmp_path: Path) -> None:
    inner_first = Roots((str(project / "src"), str(project)))
    async with served(project, limit=inner_first) as caller:
        for path in ("one.py", "../a.txt", str(project / "a.txt")):
            await caller.text("view", path=path)
        assert "no file a.txt" in await caller.error("view", path="a.txt")
        assert "outside the workspace" in await caller.error("view", path="../../project2/secret")
    async with served(project, limit=Roots((str(project / "src"), str(tmp_path / "project2")))) as caller:
        assert "SECRET" in await caller.text("view", path=str(tmp_path / "project2" / "secret"))
        for path in ("../a.txt", str(project / "a.txt"), "../../project-evil/secret"):
            assert "outside the workspace" in await caller.error("view", path=path)


async def test_root_directory_as_root(project: Path) -> None:
    async with served(project, limit=Roots(("/",))) as caller:
        assert "two" in await caller.text("view", path=str(project / "a.txt"))
        assert "two" in await caller.text("view", path=str(project / "a.txt").lstrip("/"))


async def test_unreadable_files_are_reported(project: Path) -> None:
    (project / "locked").mkdir()
    (project / "locked" / "b.txt").write_text("LOCKED\n")
    (project / "locked").chmod(0)
    (project / "a.txt").chmod(0)
    if os.access(project / "a.txt", os.R_OK):
        pytest.skip("root may read everything")
    try:
        async with served(project) as caller:
            for path in ("a.txt", "locked", "locked/b.txt"):
                said = await caller.error("view", path=path)
                assert "permission" in said.lower(), said
                assert "\n" not in said
            assert "one = 1" in await caller.text("group", name="g", add=["**/*.py", "**/*.txt"], lod=0)
        async with served(project, limit=Roots((str(project / "locked"),))) as caller:
            said = await caller.error("view", path="b.txt")
            assert "\n" not in said
            assert "LOCKED" not in said
    finally:
        (project / "locked").chmod(0o755)


async def test_a_root_around_the_settings_and_the_sessions_does_not_show_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    settings, state = home / ".config" / "rewindow", home / ".local" / "state" / "rewindow"
    for folder in (settings, state):
        folder.mkdir(parents=True)
        (folder / "note.md").write_text("MARKER\n")
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "XDG_STATE_HOME": str(state.parent)}
    async with process(home, "--root", str(home), environ=environ) as caller:
        for path in (settings / "note.md", settings, state / "note.md", state):
            assert "sessions and keys" in await caller.error("view", path=str(path))
        shown = await caller.text("group", name="all", add=[f"{home}/.*/**", ".config/rewindow/*"])
        assert "MARKER" not in shown
        assert "note.md" not in shown
