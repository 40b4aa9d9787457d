"""What a session asks of the editor that is attached to it, and what of the answers counts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import anyio
import pytest

from engine.files.revision import LARGEST
from engine.files.safe_open import keep_out
from engine.session.editor_files import EditorBuffers
from engine.session.tools import Workspace
from tests.support.fixed import FixedClock

pytestmark = pytest.mark.anyio
SECONDS = 5


class Texts:
    """An editor that holds these texts by name; a None is one that does not come in time."""

    def __init__(self, root: Path, **texts: str | None) -> None:
        self.root = root
        self.texts = texts
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0
        self.blocks = False
        self.written: list[tuple[str, str]] = []
        self.moved: Collection[str] = ()
        self.opened: list[str] = []
        """Paths, of which it says that they are open."""

    offers = True
    writes = True

    def take_moved(self) -> Collection[str] | None:
        return self.moved

    async def read(self, path: str) -> str | None:
        self.asked.append(Path(path).name)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await (anyio.sleep_forever() if self.blocks else anyio.lowlevel.checkpoint())
        finally:
            self.at_once -= 1
        name = Path(path).name
        if name in self.texts and self.texts[name] is None:
            raise TimeoutError
        if name not in self.texts and path in self.opened:
            raise LookupError(path)
        return self.texts.get(name)

    async def write(self, path: str, text: str) -> None:
        self.written.append((Path(path).name, text))


def attached(root: Path, editor: Texts, clock: FixedClock | None = None) -> EditorBuffers:
    buffers = EditorBuffers(Workspace(str(root)), clock or FixedClock())
    buffers.editor = editor
    return buffers


def paths(root: Path, *names: str) -> Sequence[str]:
    return [str(root / name) for name in names]


async def test_many_files_are_asked_for_some_at_a_time(tmp_path: Path) -> None:
    editor = Texts(tmp_path, a="A", late=None)
    names = ["a", "late", *(f"file{number}" for number in range(100))]
    found = await attached(tmp_path, editor).texts(paths(tmp_path, *names))
    assert found == {str(tmp_path / "a"): "A"} | dict.fromkeys(paths(tmp_path, *names[2:]))
    assert 1 < editor.most_at_once <= 16


async def test_own_state_in_a_home_directory_is_not_requested(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    keep_out(tmp_path / "state")
    (tmp_path / "link").symlink_to("state/token")
    editor = Texts(tmp_path, token="secret", link="secret", notes="mine")
    buffers = attached(tmp_path, editor)
    asked = paths(tmp_path, "state/token", "link", "notes")
    assert await buffers.texts(asked) == dict(zip(asked, (None, None, "mine"), strict=True))
    assert await buffers.unsaved("state/token", changes=True) is None
    assert editor.asked == ["notes"]


async def test_files_outside_are_not_requested_even_through_a_link(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "link").symlink_to(tmp_path / "secret")
    editor = Texts(tmp_path, link="x", secret="x")
    wanted = [str(tmp_path / "secret"), str(project / "link"), str(project / ".." / "secret")]
    assert await attached(project, editor).texts(wanted) == dict.fromkeys(wanted)
    assert editor.asked == []


async def test_file_behind_a_link_is_the_editors_open_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("saved\n")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    link = str(tmp_path / "link")
    editor = Texts(tmp_path, a="unsaved\n")
    buffers = attached(tmp_path, editor)
    assert await buffers.texts([link]) == {link: "unsaved\n"}
    held = await buffers.unsaved("link", changes=True)
    assert held is not None
    await buffers.write(held, b"written\n")
    assert editor.written == [("a", "written\n")], "it goes into the document that has the text"
    editor.moved = [str(tmp_path / "a")]
    assert set(await buffers.take_moved() or ()) == {str(tmp_path / "a"), link}
    editor.texts.update(a="saved", link="by the link")
    assert await buffers.texts([link]) == {link: "by the link"}, "an editor may know it as two documents"


@pytest.mark.parametrize("named", ["a", "linked/a", "other/a"])
@pytest.mark.parametrize("opened", ["link", "linked/link", "other/link"])
async def test_file_opened_through_a_link_is_that_file(tmp_path: Path, named: str, opened: str) -> None:
    for name in ("linked", "other"):
        (tmp_path / name).symlink_to(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    editor = Texts(tmp_path, **{Path(opened).name: "unsaved\n"})
    editor.opened = [str(tmp_path / opened), str(tmp_path / "elsewhere")]
    editor.texts["elsewhere"] = "other\n"
    buffers = attached(tmp_path, editor)
    path = str(tmp_path / named)
    for saved in (None, "saved\n"):  # also where there is no such file yet
        if saved is not None:
            (tmp_path / "a").write_text(saved)
        assert await buffers.texts([path]) == {path: "unsaved\n"}
        held = await buffers.unsaved(named, changes=True)
        assert held is not None
        assert (held.path, held.data) == (editor.opened[0], b"unsaved\n")
    editor.moved = [editor.opened[0]]
    assert path in (await buffers.take_moved() or ())
    editor.moved, editor.opened = editor.opened[:1], editor.opened[1:]
    assert path in (await buffers.take_moved() or ()), "closed, and known to have been there"


async def test_redirected_link_leads_to_the_other_file(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text("saved\n")
    link, (a, b) = tmp_path / "link", paths(tmp_path, "a", "b")
    link.symlink_to(a)
    editor = Texts(tmp_path, link="unsaved\n")
    editor.opened = [str(link)]
    buffers = attached(tmp_path, editor)
    await buffers.take_moved()
    assert await buffers.texts([a, b, str(link)]) == {a: "unsaved\n", b: None, str(link): "unsaved\n"}
    assert await buffers.take_moved() == set()
    link.unlink()
    link.symlink_to(b)
    assert await buffers.take_moved() == {a, b, str(link)}
    assert await buffers.take_moved() == set()
    assert await buffers.texts([a, b]) == {a: None, b: "unsaved\n"}
    assert await buffers.unsaved("a", changes=True) is None


async def test_file_opened_during_the_lookup_makes_all_requested(tmp_path: Path) -> None:
    editor = Texts(tmp_path, a="unsaved\n")
    editor.opened = paths(tmp_path, "a")
    buffers = attached(tmp_path, editor)
    moved: list[Collection[str] | None] = []

    async def take() -> None:
        moved.append(await buffers.take_moved())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await anyio.lowlevel.checkpoint()
        editor.opened = paths(tmp_path, "a", "b")
    assert moved == [None]


async def test_link_redirected_before_the_write_changes_no_other_file(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text("saved\n")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a")
    editor = Texts(tmp_path, link="unsaved\n")
    editor.opened = [str(link)]
    buffers = attached(tmp_path, editor)
    held = await buffers.unsaved("a", changes=True)
    assert held is not None
    link.unlink()
    link.symlink_to(tmp_path / "b")
    with pytest.raises(
        OSError, match="a has changed in the editor since the change was requested; nothing was written"
    ):
        await buffers.write(held, b"written\n")
    assert editor.written == []


@pytest.mark.parametrize("opened", ["x" * 300_000, "a/" * 100_000, "loop/a", "\ud800", "b\0", "..", "/"])
async def test_a_path_that_cannot_be_followed_is_nobodys(tmp_path: Path, opened: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "a").write_text("saved\n")
    editor = Texts(tmp_path, a="unsaved\n")
    editor.opened = [f"{tmp_path}/{opened}", str(tmp_path / "a")]
    buffers = attached(tmp_path, editor)
    with anyio.fail_after(SECONDS):
        assert await buffers.take_moved() == set()
        held = await buffers.unsaved("a", changes=True)
    assert held is not None


async def test_file_with_unknown_text_is_shown_and_not_changed(tmp_path: Path) -> None:
    for name in ("a", "late"):
        (tmp_path / name).write_text("saved\n")
    editor = Texts(tmp_path, late=None)
    editor.opened = paths(tmp_path, "a", "late")
    buffers = attached(tmp_path, editor)
    assert await buffers.texts(paths(tmp_path, "a", "late")) == {str(tmp_path / "a"): None}
    assert [await buffers.unsaved(name, changes=False) for name in ("a", "late")] == [None, None]
    for name, reason in (("a", "is open in the editor"), ("late", "did not answer in time")):
        with pytest.raises(OSError, match=rf"{name} .*{reason}.*; nothing was written"):
            await buffers.unsaved(name, changes=True)


async def test_overlong_editor_text_is_compared_and_blocks_changes(tmp_path: Path) -> None:
    text = "x" * LARGEST + "more\n"
    (tmp_path / "a").write_text(text)
    editor = Texts(tmp_path, a=text)
    buffers = attached(tmp_path, editor)
    assert await buffers.unsaved("a", changes=True) is None
    (tmp_path / "a").write_text("saved\n")
    assert await buffers.unsaved("a", changes=False) is None
    with pytest.raises(OSError, match=r"a has unsaved changes in the editor, in a text of more than 16,777,216"):
        await buffers.unsaved("a", changes=True)


async def test_large_file_without_an_editor_answer_is_not_changed(tmp_path: Path) -> None:
    for name, size in (("small", 1), ("large", LARGEST + 1)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    buffers = attached(tmp_path, Texts(tmp_path, small=None, large=None))
    assert await buffers.unsaved("small", changes=True) is None
    with pytest.raises(OSError, match="did not answer in time"):
        await buffers.unsaved("large", changes=True)


async def test_a_text_that_no_view_could_read_is_none(tmp_path: Path) -> None:
    found = await attached(tmp_path, Texts(tmp_path, a="x" * (LARGEST + 1))).texts(paths(tmp_path, "a"))
    assert found == {str(tmp_path / "a"): None}


async def test_answer_is_bounded_and_has_at_least_one_text(tmp_path: Path) -> None:
    editor = Texts(tmp_path, a="x" * LARGEST, b="x", c="x")
    found = await attached(tmp_path, editor).texts(paths(tmp_path, "a", "b", "c"))
    assert 1 <= len(found) < 3


async def test_who_gives_up_gets_what_is_there_by_then(tmp_path: Path) -> None:
    editor = Texts(tmp_path, a="A")
    editor.blocks = True
    buffers = attached(tmp_path, editor)
    buffers.give_up()
    assert await buffers.texts(paths(tmp_path, "a")) == {}
    await buffers.take_moved()
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(buffers.texts, paths(tmp_path, "a"))
            await anyio.wait_all_tasks_blocked()
            assert editor.at_once == 1
            buffers.give_up()


async def test_without_an_editor_there_is_nothing_to_be_known(tmp_path: Path) -> None:
    buffers = EditorBuffers(Workspace(str(tmp_path)), FixedClock())
    assert not buffers.offers
    assert await buffers.unsaved("a", changes=True) is None
    assert await buffers.texts(paths(tmp_path, "a")) == {str(tmp_path / "a"): None}


async def test_what_a_tool_has_replaced_is_old_for_a_while(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("new\n")
    clock = FixedClock()
    buffers = attached(tmp_path, Texts(tmp_path, a="old"), clock)
    buffers.note_replaced(str(tmp_path / "a"), b"old\r\n")
    assert await buffers.unsaved("a", changes=True) is None
    assert await buffers.texts(paths(tmp_path, "a")) == {str(tmp_path / "a"): None}
    clock.time += 60
    held = await buffers.unsaved("a", changes=True)
    assert held is not None
    assert (held.text, held.data) == ("old", b"old")


@pytest.mark.parametrize("path", [7, None, "../a", "b\0", "x" * 5000, "directory"])
async def test_what_is_no_file_of_the_workspace_has_nothing_unsaved(tmp_path: Path, path: object) -> None:
    (tmp_path / "directory").mkdir()
    assert await attached(tmp_path, Texts(tmp_path, a="x", directory="x")).unsaved(path, changes=True) is None


async def test_a_text_that_has_changed_since_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("saved\n")
    editor = Texts(tmp_path, a="one\r\n")
    buffers = attached(tmp_path, editor)
    held = await buffers.unsaved("a", changes=True)
    assert held is not None
    editor.texts["a"] = "two\r\n"
    with pytest.raises(OSError, match="has changed in the editor since"):
        await buffers.write(held, b"three\n")
    editor.texts["a"] = "one\r\n"
    with pytest.raises(ValueError, match="accepts only text"):
        await buffers.write(held, b"\x00\x01")
    await buffers.write(held, b"three\n")
    assert editor.written == [("a", "three\r\n")]
