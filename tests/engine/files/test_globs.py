"""Globs in groups: their files, the summary, reports of ticks, and the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.tokens import count
from engine.log.events.nodes import ContentsAdopted, GroupRecomputed, RevisionAdopted
from tests.support.boards import Desk, kinds


@pytest.fixture
def desk(desk: Desk, tmp_path: Path) -> Desk:
    for name in ("src/a.py", "src/deep/b.py", "docs/c.md", "build/d.py", "top.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        desk.write(name, f"text of {name}\n")
    desk.write(".gitignore", "build/\n")
    return desk


def _said(desk: Desk) -> list[str]:
    return [event.delta for event in desk.tick() if isinstance(event, GroupRecomputed)]


def test_a_glob_shows_matching_files_that_are_not_ignored(desk: Desk) -> None:
    report = desk.run("g = group('**/*.py')")
    text = desk.text("g")
    assert text.startswith("# **/*.py, 3 files\n# top.py\n")
    assert all(f"text of {name}" in text for name in ("src/a.py", "src/deep/b.py", "top.py"))
    assert "build" not in text
    assert report.displays[0].tokens == count(report.displays[0].text)


def test_files_of_a_glob_are_no_nodes(desk: Desk) -> None:
    report = desk.run("g = group('**/*.py', lod=0)")
    assert kinds(report.events) == ["revision_adopted", "contents_adopted", "node_made"]
    assert [node.obj_id for node in desk.board.handles()] == ["group-1.1"]
    (contents,) = (event for event in report.events if isinstance(event, ContentsAdopted))
    assert [Path(each.path).name for each in contents.files] == ["top.py", "a.py", "b.py"]
    (manifest,) = (event for event in report.events if isinstance(event, RevisionAdopted))
    kept = desk.contents[manifest.digest].decode()
    assert [line.split(" ", 2)[2] for line in kept.splitlines()] == ["top.py", "src/a.py", "src/deep/b.py"]


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("src", ["src/a.py", "src/deep/b.py"]),
        ("src/", ["src/a.py", "src/deep/b.py"]),
        ("top.py", ["top.py"]),
        ("a.py", []),
        ("src/deep/b.py", ["src/deep/b.py"]),
        ("*.md", ["docs/c.md"]),
        ("./*.py", ["top.py"]),
        ("{docs,src}/*", ["docs/c.md", "src/a.py"]),
        ("src/**", ["src/a.py", "src/deep/b.py"]),
        ("nothing/*.py", []),
        ("{cwd}/src/*.py", ["src/a.py"]),
    ],
)
def test_a_text_is_a_path_a_directory_or_a_glob(desk: Desk, text: str, files: list[str]) -> None:
    desk.run(f"g = group({text.replace('{cwd}', str(desk.root))!r})")
    shown = [line[2:].split(",")[0] for line in desk.text("g").splitlines() if line.startswith("# ")]
    assert (shown if files == [text] else shown[1:]) == files


@pytest.mark.parametrize("text", ["", "../x", "/etc/passwd", "a/../../b", "[", "x{a", "\0"])
def test_an_invalid_glob_is_a_named_error(desk: Desk, text: str) -> None:
    with pytest.raises(ValueError, match="group"):
        desk.run(f"group({text!r})")


def test_files_come_change_and_go_at_ticks_alone(desk: Desk) -> None:
    desk.run("g = group('src', lod=0)")
    desk.write("src/new.py", "fresh\n")
    desk.write("src/a.py", "other text\n")
    (desk.root / "src/deep/b.py").unlink()
    assert "fresh" not in desk.text("g")
    (said,) = _said(desk)
    first, *diff = said.split("\n")
    assert first == "files of src: 1 changed (src/a.py), 1 new (src/new.py), 1 gone (src/deep/b.py)"
    assert diff[-2:] == ["-text of src/a.py", "+other text"]
    text = desk.text("g")
    assert "fresh" in text
    assert "other text" in text
    assert "b.py" not in text
    assert desk.tick() == ()


def test_a_paused_group_does_not_look(desk: Desk) -> None:
    desk.run("g = group('src').Pause()")
    desk.write("src/a.py", "other text\n")
    assert desk.tick() == ()
    assert "other text" not in desk.text("g")
    desk.run("g.Refresh()")
    assert "other text" in desk.text("g")


def test_a_glob_is_added_and_removed_by_its_text(desk: Desk) -> None:
    desk.run("g = group('src', 'src', 'top.py'); g.Add('docs'); g.Remove('top.py')")
    assert desk.get("g").members == ("src", "docs")
    with pytest.raises(ValueError, match="not a member"):
        desk.run("g.Remove('top.py')")


def test_a_file_of_two_globs_is_shown_once(desk: Desk) -> None:
    desk.run("g = group('src', 'src/*.py')")
    assert desk.text("g").count("# src/a.py\n") == 1


def test_many_files_are_listed_by_directory_within_the_budget(desk: Desk) -> None:
    for number in range(300):
        (desk.root / f"src/part{number % 7}").mkdir(exist_ok=True)
        desk.write(f"src/part{number % 7}/module_{number}.py", f"x = {number}\n")
    report = desk.run("g = group('src', tokens=200)")
    assert "src/part3/ 43 files\n" in desk.text("g")
    assert desk.get("g").rendered.tokens <= 200
    assert not any(isinstance(event, ContentsAdopted) for event in report.events)
    desk.write("src/part3/module_3.py", "changed\n")
    desk.tick()
    assert "changed: src/part3/module_3.py\n" in desk.text("g")
    desk.tail()
    desk.write("src/part4/module_4.py", "changed\n")
    desk.tick()
    assert "changed: src/part4/module_4.py\n" in desk.text("g")


def test_a_replay_sees_the_recorded_files(desk: Desk) -> None:
    desk.run("g = group('**/*.py', tokens=300); outer = group(g, 'docs')")
    desk.write("src/a.py", "second\n")
    desk.tick()
    desk.run("g.SetTokens(900); outer.Add('top.py')")
    desk.tail()
    (desk.root / "top.py").unlink()
    desk.tick()
    texts = desk.text("g"), desk.text("outer")
    desk.write("src/a.py", "nobody has seen this\n")
    desk.write("src/unseen.py", "nor this\n")
    again = desk.rebuilt()
    assert [step.events for step in again.steps] == [step.events for step in desk.steps]
    assert (again.text("g"), again.text("outer")) == texts
    assert (again.files.stamps, again.files.reads) == (0, 0)
    again.board.looks.settle()
    assert _said(again)[0].startswith("files of **/*.py: 1 changed (src/a.py), 1 new (src/unseen.py)")


def test_an_unreadable_root_is_a_state(desk: Desk) -> None:
    desk.run("g = group('src')")
    for path in (desk.root / "src/deep/b.py", desk.root / "src/a.py"):
        path.unlink()
    (desk.root / "src/deep").rmdir()
    (desk.root / "src").rmdir()
    assert _said(desk) == ["files of src: 2 gone (src/a.py, src/deep/b.py)"]
    assert "# src, 0 files" in desk.text("g")


def test_files_differ_from_the_revision_that_a_model_read(desk: Desk) -> None:
    desk.run("g = group('src', lod=3)")
    assert "(not shown before" in desk.steps[0].report.displays[0].text
    for number in range(2):
        desk.write("src/a.py", f"text {number}\n")
        desk.tick()
        assert f"+text {number}\n" in desk.run("show(g)").displays[0].text
        desk.tail()
        assert f"(unchanged since statement {number + 2})" in desk.text("g")
    assert desk.rebuilt().get("g").Render().text == desk.text("g")


def test_a_restored_handle_knows_the_displayed_files(desk: Desk) -> None:
    desk.run("g = group('src', lod=0)")
    desk.tail()
    desk.write("src/a.py", "other\n")
    desk.tick()
    desk.run("show(g)")
    state = desk.board.state_of(desk.get("g"))
    other = desk.rebuilt()
    again = other.board.node_from("group-1.1", state)
    assert again.Render(lod=3).text == desk.get("g").Render(lod=3).text
    assert "+other" in again.Render(lod=3).text


def test_a_tick_says_apart_what_became_of_files_of_globs(desk: Desk) -> None:
    desk.run("a = view('top.py', freq='Sync'); g = group(a, 'src/*.py'); h = group(g)")
    desk.write("src/a.py", "another text\n")
    desk.write("top.py", "another text\n")
    files = "files of src/*.py: 1 changed (src/a.py)"
    events = [event for event in desk.tick() if isinstance(event, GroupRecomputed)]
    assert [(event.delta.partition("\n")[0], event.files) for event in events] == [
        (f"1 of 2 members changed: a; {files}", files),
        ("1 of 1 member changed: g", ""),
    ]


def test_a_report_of_changed_files_keeps_to_its_share(desk: Desk) -> None:
    desk.run("g = group('src', tokens=400)")
    desk.write("src/a.py", "".join(f"changed line {number}\n" for number in range(200)))
    desk.write("src/deep/b.py", "short\n")
    (said,) = _said(desk)
    assert count(said.partition("\n")[2] + "\n") <= 400 // 8
    assert "+changed line 0" in said
    desk.run("g.SetTokens(8)")
    desk.write("src/a.py", "again\n")
    assert _said(desk) == ["files of src: 1 changed (src/a.py)"]
