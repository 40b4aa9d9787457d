"""Acts on the file tree: each is asked about in its words, done once, and what files held that go with it is kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import xxhash

from engine.core.execution import LINK
from engine.log.events.conversation import ToolResult
from engine.log.events.execution import FileWritten
from engine.log.file_history import restorable
from engine.log.permissions import FileSubject, PermissionAnswer, TreeSubject
from engine.log.statements import EffectAnswer
from engine.session.tools import restore
from engine.session.tools.tree import MOST_FILES
from tests.engine.session.test_acts_asked import ALLOWED, Office, Waiting
from tests.support.permissions import FixedPermissions

pytestmark = pytest.mark.anyio
REJECTED = PermissionAnswer(outcome="rejected")


def allowing(root: Path, *answers: PermissionAnswer) -> tuple[Office, FixedPermissions]:
    office = Office(root)
    user = office.questions.permissions = FixedPermissions(answers or [ALLOWED] * 20)
    return office, user


def subjects(user: FixedPermissions) -> list[TreeSubject]:
    return [each.subject for each in user.questions if isinstance(each.subject, TreeSubject)]


def back(office: Office) -> None:
    """Puts the files back, as a rewind to the beginning does."""
    for file in restorable(office.log.events).files:
        wanted = None if file.wanted is None else office.store.blob_get(file.wanted)
        restore(office.workspace, file, wanted)


def tree(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in sorted(root.rglob("*"))
    }


@pytest.mark.parametrize(
    ("operation", "arguments", "kind", "diff", "note"),
    [
        ("remove", {"path": "a"}, "delete", {"a": [("one\n", "")]}, ""),
        ("remove", {"path": "b"}, "delete", {"b": []}, "binary, 2 bytes"),
        ("rename", {"path": "n", "source": "a"}, "move", {"a": [], "n": [(None, "one\n")]}, ""),
        ("rmtree", {"path": "d"}, "delete", {"d": [], "d/g": []}, "1 file in it:\ng"),
        ("mkdir", {"path": "n", "mode": 0o777}, "edit", {"n": []}, ""),
    ],
)
async def test_call_keeps_the_diff_and_note_of_its_question(
    tmp_path: Path, operation: str, arguments: dict[str, object], kind: str, diff: dict[str, object], note: str
) -> None:
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "b").write_bytes(b"\0\1")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "g").write_text("two\n")
    office, user = allowing(tmp_path)
    assert (await office.perform(operation, **arguments)).error is None
    (subject,) = subjects(user)
    assert (subject.kind, subject.note) == (kind, note)
    assert {
        event.path.removeprefix(f"{tmp_path}/"): [(each.old, each.new) for each in event.changes]
        for event in office.logged(FileWritten)
    } == diff
    (result,) = office.logged(ToolResult)
    assert result.text == note


async def test_tree_is_removed_by_one_act_that_names_its_files(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f").write_text("one\n")
    (tmp_path / "d" / "g").write_text("two\n")
    (tmp_path / "d" / "link").symlink_to(tmp_path)
    before = tree(tmp_path)
    office, user = allowing(tmp_path)
    assert (await office.perform("rmtree", path="d")).error is None
    (subject,) = subjects(user)
    assert subject.act == "Remove d with its contents"
    assert subject.note.splitlines()[0] == "2 files in it:"
    assert sorted(subject.note.splitlines()[1:]) == ["e/f", "g"]
    assert tree(tmp_path) == {}
    back(office)
    assert tree(tmp_path) == before
    assert os.readlink(tmp_path / "d" / "link") == str(tmp_path)


async def test_directories_in_one_that_the_statement_made_ask_no_more(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    office, user = allowing(tmp_path)
    assert (await office.perform("utime", path="old", times=[1, 2])).error is None
    for path in ("a", "a/b", "a/b/c", "old/d"):
        assert (await office.perform("mkdir", path=path, mode=0o777)).error is None
    assert [subject.act for subject in subjects(user)[1:]] == ["Make the directory a", "Make the directory old/d"]


async def test_tree_that_cannot_go_whole_stays(tmp_path: Path) -> None:
    office, user = allowing(tmp_path)
    many = tmp_path / "many"
    many.mkdir()
    for number in range(MOST_FILES + 1):
        (many / str(number)).touch()
    answer = await office.perform("rmtree", path="many")
    assert answer.error is not None
    assert "bash() can remove it" in answer.error.message
    assert len(list(many.iterdir())) == MOST_FILES + 1
    (tmp_path / "link").symlink_to(many)
    (tmp_path / "file").touch()
    for path in ("link", "file", "../other", "missing"):
        assert (await office.perform("rmtree", path=path)).error is not None
    assert user.questions == []


async def test_what_is_rejected_is_not_done(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "d").mkdir()
    before = tree(tmp_path)
    office, user = allowing(tmp_path, *[REJECTED] * 20)
    for operation, arguments in {
        "mkdir": {"path": "n", "mode": 0o777},
        "rmdir": {"path": "d"},
        "remove": {"path": "a"},
        "rmtree": {"path": "d"},
        "rename": {"path": "n", "source": "a"},
        "link": {"path": "n", "source": "a"},
        "symlink": {"path": "n", "target": "a"},
        "mkfifo": {"path": "n", "mode": 0o666},
        "chmod": {"path": "a", "mode": 0o700},
        "utime": {"path": "a", "times": [1, 2]},
    }.items():
        answer = await office.perform(operation, **arguments)
        assert answer.error is not None
        assert answer.error.message == "The user rejected this change."
    assert len(user.questions) == 10
    assert tree(tmp_path) == before
    assert office.logged(FileWritten) == []


async def test_rename_over_a_file_shows_the_change_and_restores_both(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("two\n")
    (tmp_path / "a").write_text("one\n")
    before = tree(tmp_path)
    office, user = allowing(tmp_path)
    assert (await office.perform("rename", path="a", source="new")).error is None
    assert tree(tmp_path) == {"a": b"two\n"}
    (subject,) = subjects(user)
    assert subject.act == "Rename new to a"
    assert [(change.old, change.new) for change in subject.changes] == [("one\n", "two\n")]
    back(office)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("operation", ["rename", "link"])
async def test_protected_name_gets_a_copy_of_the_shown_content(tmp_path: Path, operation: str) -> None:
    """Whoever has the file open, or another name for it, would go on writing what was allowed."""
    (tmp_path / "new").write_text("shown\n")
    os.link(tmp_path / "new", tmp_path / "other")
    office, user = allowing(tmp_path)
    with open(tmp_path / "new", "a") as kept:  # noqa: ASYNC230
        assert (await office.perform(operation, path=".envrc", source="new")).error is None
        kept.write("later\n")
    (tmp_path / "other").write_text("later\n")
    assert (tmp_path / ".envrc").read_text() == "shown\n"
    assert (tmp_path / "new").exists() == (operation == "link")
    assert subjects(user)[0].protected


async def test_a_directory_gets_no_protected_name_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new/tasks.json").write_text("{}")
    office, user = allowing(tmp_path)
    error = (await office.perform("rename", path=".vscode", source="new")).error
    assert error is not None
    assert "written one by one" in error.message
    assert user.questions == []


async def test_a_directory_that_is_renamed_keeps_track_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f").write_text("one\n")
    office, user = allowing(tmp_path)
    assert (await office.perform("rename", path="n", source="d")).error is None
    assert subjects(user)[0].note == "1 file in it"
    assert tree(tmp_path) == {"n": None, "n/e": None, "n/e/f": b"one\n"}
    back(office)
    assert tree(tmp_path) == {"d": None, "d/e": None, "d/e/f": b"one\n"}


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("remove", {"path": "d/a"}),
        ("rmtree", {"path": "d"}),
        ("rename", {"source": "d/a", "path": "b"}),
        ("chmod", {"path": "d/a", "mode": 0o700}),
    ],
)
async def test_file_changed_during_the_question_is_left(
    tmp_path: Path, operation: str, arguments: dict[str, object]
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text("one\n")
    office, answers = Office(tmp_path), list[EffectAnswer]()
    user = office.questions.permissions = Waiting()

    async def act() -> None:
        answers.append(await office.perform(operation, **arguments))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(act)
        await user.asked.wait()
        (tmp_path / "d" / "a").write_text("somebody else's\n")
        user.decided.set()
    assert "has changed since the change was requested" in str(answers[0].error)
    assert tree(tmp_path) == {"d": None, "d/a": b"somebody else's\n"}


def _by_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def _by_pipe(path: Path, _outside: Path) -> None:
    os.mkfifo(path)


def _by_directory(path: Path, _outside: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("place", ["d", "d/a"])
@pytest.mark.parametrize("by", [_by_link, _by_pipe, _by_directory])
@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("write", {"path": "d/a", "text": b"two\n"}),
        ("write", {"path": "d/new", "text": b"two\n"}),
        ("remove", {"path": "d/a"}),
        ("rmtree", {"path": "d"}),
        ("rename", {"source": "d/a", "path": "b"}),
        ("rename", {"source": "b", "path": "d/a"}),
        ("link", {"source": "d/a", "path": "c"}),
        ("mkdir", {"path": "d/new", "mode": 0o777}),
        ("mkfifo", {"path": "d/new", "mode": 0o600}),
        ("utime", {"path": "d/a", "times": [1, 2]}),
    ],
)
async def test_what_takes_a_place_during_the_question_leads_nothing_elsewhere(
    tmp_path: Path, operation: str, arguments: dict[str, object], by: Callable[[Path, Path], None], place: str
) -> None:
    """A link, a pipe or a directory in the place of the file, or of the directory that it is in."""
    root, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (root / "d", outside):
        folder.mkdir(parents=True)
        (folder / "a").write_text("one\n")
        (folder / "a").chmod(0o644)
    (root / "b").write_text("b\n")
    before = states(outside)
    office, answers = Office(root), list[EffectAnswer]()
    user = office.questions.permissions = Waiting()

    async def act() -> None:
        answers.append(await office.perform(operation, **arguments))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(act)
        await user.asked.wait()
        (root / place).rename(tmp_path / "away")
        by(root / place, outside if place == "d" else outside / "a")
        user.decided.set()
    assert states(outside) == before
    # In another directory of that name a new file is what was asked about.
    is_meant = by is _by_directory and arguments["path"] == "d/new"
    if (not is_meant and place in ("d", arguments["path"])) or operation in ("rename", "rmtree", "link"):
        assert answers[0].error is not None


def states(root: Path) -> dict[str, tuple[int, int, bytes | None]]:
    return {
        str(path): (path.stat().st_mode, path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in (root, *root.rglob("*"))
    }


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("mkdir", {"path": "../out", "mode": 0o777}),
        ("remove", {"path": "../outside"}),
        ("rename", {"source": "../outside", "path": "b"}),
        ("link", {"source": "../outside", "path": "b"}),
        ("chmod", {"path": "leading-out", "mode": 0o700}),
        ("chmod", {"path": "a", "mode": 0o4755}),
        ("symlink", {"path": "/tmp/n", "target": "a"}),
        ("mkfifo", {"path": "way-out/n", "mode": 0o666}),
        ("rmdir", {"path": "../empty"}),
    ],
)
async def test_nothing_is_done_outside_of_the_workspace(
    tmp_path: Path, operation: str, arguments: dict[str, object]
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "outside").write_text("x")
    (tmp_path / "empty").mkdir()
    (root / "a").write_text("x")
    (root / "leading-out").symlink_to("../outside")
    (root / "way-out").symlink_to("..")
    before = tree(tmp_path)
    office, user = allowing(root)
    answer = await office.perform(operation, **arguments)
    assert answer.error is not None
    assert answer.error.type == "PermissionError"
    assert user.questions == []
    assert tree(tmp_path) == before


async def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    office, user = allowing(tmp_path)
    assert (await office.perform("symlink", path="l", target="a")).error is None
    assert (await office.perform("remove", path="l")).error is None
    assert tree(tmp_path) == {"a": b"x"}
    assert [each.act for each in subjects(user)] == ["Make l a link to a", "Remove l"]
    made, removed = office.logged(FileWritten)
    assert made.after_digest == removed.before_digest == f"{LINK}{xxhash.xxh3_64_hexdigest(b'a')}"
    back(office)
    assert tree(tmp_path) == {"a": b"x"}


async def test_permissions_of_a_just_written_file_are_not_asked(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    office, user = allowing(tmp_path)
    await office.perform("write", path="a", text="x")
    for operation, arguments in (("chmod", {"mode": 0o755}), ("utime", {"times": [1, 2]})):
        assert (await office.perform(operation, path="a", **arguments)).error is None
    assert len(user.questions) == 1
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "a").stat().st_mtime_ns == 2
    await office.perform("chmod", path="a", mode=0o777)
    await office.perform("chmod", path="old", mode=0o755)
    assert [each.act for each in subjects(user)] == ["Change the permissions of a", "Change the permissions of old"]


@pytest.mark.parametrize(
    ("operation", "arguments", "path"),
    [
        ("utime", {"path": "old", "times": [1, 2]}, "old"),
        ("chmod", {"path": "old", "mode": 0o600}, "old"),
        ("link", {"path": "new", "source": "old"}, "new"),
        ("rename", {"path": "new", "source": "old"}, "new"),
    ],
)
async def test_an_allowed_change_that_writes_nothing_covers_no_other(
    tmp_path: Path, operation: str, arguments: dict[str, Any], path: str
) -> None:
    (tmp_path / "old").write_text("x")
    office, user = allowing(tmp_path)
    assert (await office.perform(operation, **arguments)).error is None
    assert (await office.perform("chmod", path=path, mode=0o755)).error is None
    assert len(user.questions) == 2


async def test_renamed_written_file_keeps_its_free_permissions(tmp_path: Path) -> None:
    office, user = allowing(tmp_path)
    await office.perform("write", path="a", text="x")
    assert (await office.perform("rename", source="a", path="b")).error is None
    asked = len(user.questions)
    assert (await office.perform("chmod", path="b", mode=0o755)).error is None
    assert len(user.questions) == asked


async def test_a_question_names_where_the_files_really_are(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "harmless").symlink_to("real")
    for name in "ab":
        (tmp_path / "real" / name).write_text("x")
    office, user = allowing(tmp_path)
    for operation, arguments in {
        "mkdir": {"path": "harmless/d", "mode": 0o777},
        "link": {"path": "harmless/l", "source": "harmless/a"},
        "rename": {"path": "c", "source": "harmless/b"},
        "remove": {"path": "harmless/a"},
    }.items():
        assert (await office.perform(operation, **arguments)).error is None
    assert [each.act for each in subjects(user)] == [
        "Make the directory real/d",
        "Make real/l a hard link to real/a",
        "Rename real/b to c",
        "Remove real/a",
    ]


async def test_remembered_directory_does_not_cover_links_to_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "free").mkdir()
    (tmp_path / "kept").write_text("x")
    for name in "ab":
        (tmp_path / "free" / name).write_text("x")
    always = PermissionAnswer(outcome="allowed", remember=True)
    office, user = allowing(tmp_path, always, REJECTED)
    assert (await office.perform("remove", path="free/a")).error is None
    assert (await office.perform("link", path="free/a", source="free/b")).error is None
    assert len(user.questions) == 1
    assert (await office.perform("link", path="free/c", source="kept")).error is not None
    assert len(user.questions) == 2


@pytest.mark.parametrize(
    ("operation", "arguments", "said"),
    [
        ("chmod", {"mode": 0o777}, "rw-r--r-- (644) -> rwxrwxrwx (777)"),
        ("utime", {"times": [0, 86_400 * 10**9]}, "read 1970-01-01 00:00:00 UTC, changed 1970-01-02 00:00:00 UTC"),
        ("utime", {"times": [-(2**62), 2**62]}, "read 1823-11-12 00:06:21 UTC, changed 2116-02-20 23:53:38 UTC"),
        ("utime", {"times": [10**30, 0]}, None),
        ("utime", {"times": None}, "read and changed now"),
    ],
)
async def test_a_question_says_what_permissions_and_times_become(
    tmp_path: Path, operation: str, arguments: dict[str, object], said: str | None
) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "a").chmod(0o644)
    office, user = allowing(tmp_path)
    answer = await office.perform(operation, path="a", **arguments)
    assert (answer.error is None) == (said is not None)
    assert [each.note for each in subjects(user)] == ([said] if said else [])


async def test_question_says_that_a_new_file_is_executable(tmp_path: Path) -> None:
    office, user = allowing(tmp_path)
    assert (await office.perform("write", path="a", text=b"x\n", mode=0o700)).error is None
    assert (await office.perform("write", path="b", text=b"x\n", mode=0o600)).error is None
    assert [each.subject.note for each in user.questions if isinstance(each.subject, FileSubject)] == [
        "the file becomes executable",
        "",
    ]


async def test_file_whose_name_is_not_text_is_found(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).write_text("x")
    office, _ = allowing(tmp_path)
    assert (await office.perform("remove", path="\ufffd")).error is None
    assert os.listdir(tmp_path) == []
