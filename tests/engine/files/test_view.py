"""View handles of files and directories: methods chain and are recorded, paused views keep their content."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from engine.files.disk import Sizes
from engine.log.events.nodes import MethodCalled, NodeChanged
from tests.support.boards import Desk

_TEXT = "".join(f"line {number}\n" for number in range(1, 101))


def test_every_mutating_method_returns_its_handle_and_is_recorded(desk: Desk) -> None:
    desk.write("a.py", _TEXT)
    desk.run("a = view('a.py')")
    report = desk.run(
        "b = a.SetPos('5').SetTokens(50).SetLod(0).Scroll(3).Scroll(tokens=20).Refresh().Run(freq='Sync').Pause()"
    )
    calls = [event for event in report.events if isinstance(event, MethodCalled)]
    assert desk.get("a") is desk.get("b")
    assert [call.method for call in calls] == [
        "SetPos",
        "SetTokens",
        "SetLod",
        "Scroll",
        "Scroll",
        "Refresh",
        "Run",
        "Pause",
    ]
    assert calls[0].args == ("'5'",)
    assert calls[4].kwargs == {"tokens": "20"}
    assert calls[6].kwargs == {"freq": "'Sync'"}
    assert {(call.obj_id, call.obj_type) for call in calls} == {("view-1.1", "view")}
    for call, after in pairwise(calls):
        assert call.after_digest == after.before_digest
    assert calls[0].before_digest != calls[0].after_digest
    assert calls[2].before_digest == calls[2].after_digest


def test_a_replacement_view_takes_its_place_in_groups_and_pins(desk: Desk) -> None:
    desk.write("a.py", _TEXT)
    desk.write("b.py", "other\n")
    desk.run("a = pin(view('a.py'), 'the task'); g = group('b.py', a); inner = group(a); old = a")
    report = desk.run("a = view('b.py', instead=a)")
    assert [event.method for event in report.events if isinstance(event, MethodCalled)] == ["Replace", "Replace"]
    desk.run("assert g.members == ('b.py', a) and inner.members == (a,)")
    desk.run("assert a.pinned == 'the task' and old.pinned is None")


@pytest.mark.parametrize(
    "source", ["view('nothing.py', instead=a)", "view('/\\0', instead=a)", "view('a.py', 'x', instead=a)"]
)
def test_a_failed_replacement_keeps_the_other_view(desk: Desk, source: str) -> None:
    desk.write("a.py", _TEXT)
    desk.run("a = view('a.py'); g = group(a); before = a")
    with pytest.raises((OSError, ValueError)):
        desk.run(f"a = {source}")
    desk.run("assert g.members == (a,) and a is before")
    with pytest.raises(TypeError, match="takes a handle"):
        desk.run("view('a.py', instead=5)")


def test_arguments_on_record_are_bounded(desk: Desk) -> None:
    desk.run("a = view(text='x\\n' * 9)")
    (call,) = desk.run("a.SetPos('1' + ' ' * 100000)").events
    assert len(call.args[0]) == 80


@pytest.mark.parametrize(
    "statement",
    [
        "a.SetLod(99)",
        "a.SetLod(True)",
        "a.SetTokens(0)",
        "a.SetTokens('many')",
        "a.SetPos('class Foo')",
        "a.Scroll()",
        "a.Scroll(1, tokens=1)",
        "a.Scroll('1')",
        "a.Run('Often')",
        "a.Run(('Periodic', 0))",
        "a.Render(lod=99)",
        "view('a.py', lod=99)",
        "view('a.py', mode='walking')",
        "view('a.py', freq='Daily')",
        "setattr(a, 'min_turn_interval', 0)",
    ],
)
def test_what_is_not_supported_is_refused_and_changes_nothing(desk: Desk, statement: str) -> None:
    desk.write("a.py", _TEXT)
    desk.run("a = view('a.py')")
    before = desk.get("a").GetDigest()
    with pytest.raises(ValueError, match=r"\w"):
        desk.run(statement)
    assert desk.get("a").GetDigest() == before
    assert desk.run("").events == ()


@pytest.mark.parametrize("made", ["view('a.md')", "group(view('a.md'))"])
def test_the_default_budget_that_is_set_is_a_change(desk: Desk, made: str) -> None:
    desk.run(f"a = {made}")
    node = desk.get("a")
    before = node.GetDigest()
    assert "chosen" not in before
    desk.run(f"a.SetTokens({node.default_tokens})")
    assert node.GetDigest() == {**before, "chosen": True}


def test_state_is_set_by_methods_only(desk: Desk) -> None:
    desk.run("a = view(text='x')")
    for name in ("tokens", "lod", "mode", "freq", "pos", "obj_id", "last_tick_turn", "dirty"):
        with pytest.raises(AttributeError):
            setattr(desk.get("a"), name, 1)


def test_the_throttle_can_be_set_and_is_recorded(desk: Desk) -> None:
    desk.run("a = view(text='x')")
    (call,) = desk.run("a.min_turn_interval = 3").events
    assert (call.method, call.args, desk.get("a").min_turn_interval) == ("min_turn_interval", ("3",), 3)


def test_a_paused_view_keeps_its_content_until_refresh_or_run(desk: Desk) -> None:
    desk.write("a.py", _TEXT)
    desk.run("a = view('a.py', tokens=60)")
    desk.write("a.py", _TEXT.replace("line", "LINE"))
    desk.run("a.SetPos('50').SetTokens(80).SetLod(0).Scroll(2)")
    desk.tick()
    assert "line 52" in desk.run("show(a)").displays[0].text
    assert "LINE 52" in desk.run("show(a.Refresh())").displays[0].text
    desk.write("a.py", _TEXT)
    assert "LINE 52" in desk.run("show(a)").displays[0].text
    assert "line 52" in desk.run("show(a.Run())").displays[0].text


@pytest.mark.parametrize(
    ("statement", "pos"),
    [
        ("a.Scroll(10)", "11:0"),
        ("a.Scroll(10).Scroll(-4)", "7:0"),
        ("a.Scroll(-5)", "1:0"),
        ("a.Scroll(10_000)", "100:0"),
        ("a.Scroll(tokens=1)", "2:0"),
        ("a.SetPos('50').Scroll(tokens=-1)", "49:0"),
        ("a.Scroll(0)", "1:0"),
    ],
)
def test_scrolling_moves_by_lines_or_tokens_within_the_document(desk: Desk, statement: str, pos: str) -> None:
    desk.write("a.py", _TEXT)
    desk.run("a = view('a.py')")
    desk.run(statement)
    assert desk.get("a").pos == pos


def test_missing_and_unreadable_files_are_states_with_advice(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "b.py").write_text("")
    (tmp_path / "folder" / "a").mkdir()
    report = desk.run("m = view('missing.py'); d = view('folder'); u = view('/dev/null')")
    missing, directory, unreadable = (display.text for display in report.displays)
    assert missing == "(no file missing.py; create it and Refresh(), or view another path)\n"
    assert directory == "(directory, 2 entries)\n1\ta/\n2\tb.py\n"
    assert (
        unreadable
        == "(/dev/null cannot be read: the path leads to a device, not a regular file; Refresh() tries again)\n"
    )
    assert [location.path for location in report.locations] == [str(tmp_path / "folder")]
    desk.write("missing.py", "here\n")
    assert desk.run("show(m.Refresh())").displays[0].text == "1\there\n"


def test_a_file_over_the_limit_is_not_read(desk: Desk, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate((1 << 30) + 1)
    text = desk.run("h = view('huge')").displays[0].text
    assert (desk.files.reads, desk.files.opens) == (0, 0)
    assert text.startswith("(huge has 1,073,741,825 bytes; views read files up to 1,073,741,824 bytes;")


def test_a_file_that_outgrows_the_limit_is_read_by_pages(tmp_path: Path) -> None:
    desk = Desk(tmp_path, sizes=Sizes(held=100))
    path = desk.write("log", "x")

    def grown(_: str, limit: int) -> bytes:
        path.write_bytes(b"line\n" * 100)
        return b"x" * limit

    desk.files.read = grown
    text = desk.run("h = view('log', tokens=20)").displays[0].text
    assert (desk.files.opens, text.splitlines()[0]) == (2, "1\tline")
    assert text.endswith(" lines below\n")


@pytest.mark.parametrize(
    ("words", "mode", "freq"),
    [
        ("freq='paused'", "paused", None),
        ("mode='paused', freq='paused'", "paused", None),
        ("mode='running'", "running", "Sync"),
        ("freq='Periodic'", "running", ("Periodic", 10.0)),
    ],
)
def test_a_schedule_is_what_its_words_say(desk: Desk, words: str, mode: str, freq: object) -> None:
    desk.write("a.py", _TEXT)
    desk.run(f"a = view('a.py', {words}); g = group('a.py', {words})")
    for name in ("a", "g"):
        handle = desk.get(name)
        assert (handle.mode, handle.freq) == (mode, freq)


@pytest.mark.parametrize("words", ["mode='paused', freq='Sync'", "mode='running', freq='paused'"])
@pytest.mark.parametrize("call", ["view", "group"])
def test_a_mode_against_its_frequency_is_refused(desk: Desk, call: str, words: str) -> None:
    with pytest.raises(ValueError, match="a frequency makes a handle run; leave out mode or freq"):
        desk.run(f"{call}('a.py', {words})")


def test_a_handle_lists_public_names_and_tells_how_to_change_them(desk: Desk) -> None:
    desk.write("a.py", _TEXT)
    desk.run("a = view('a.py'); g = group(a)")
    for name in ("a", "g"):
        handle = desk.get(name)
        listed = dir(handle)
        assert {"Refresh", "SetTokens", "tokens"} <= set(listed)
        assert not [each for each in listed if each.startswith("_") or not hasattr(handle, each)]
    for name, method in (("tokens", "SetTokens"), ("lod", "SetLod"), ("pos", "SetPos")):
        with pytest.raises(AttributeError, match=rf"{name} cannot be assigned; call a\.{method}\(5\)$"):
            desk.run(f"a.{name} = 5")


@pytest.mark.parametrize(("pos", "said"), [("9999", True), ("1", False), (10**9, True), (0, False)])
def test_a_position_past_the_end_is_said(desk: Desk, pos: object, said: bool) -> None:
    desk.write("a.py", _TEXT)
    (display,) = desk.run(f"a = view('a.py', {pos!r})").displays
    assert display.title.endswith(" (past the end)") == said


def test_a_refresh_renders_what_it_takes(desk: Desk) -> None:
    desk.write("a.py", _TEXT)
    desk.run("a = view('a.py')")
    desk.write("a.py", "other\n")
    desk.run("a.Refresh(); seen = a.dirty")
    assert desk.namespace["seen"] is False


def test_the_repr_is_one_short_line_without_a_name(desk: Desk) -> None:
    desk.write("a.py", _TEXT)
    desk.run("a = view('a.py', pos='31', tokens=All).Run()")
    assert repr(desk.get("a")) == "<view a.py:31 running Sync lod=0 tokens=All>"


def test_files_outside_the_workspace_say_so(tmp_path: Path) -> None:
    inner, other, foreign = (tmp_path / name for name in ("inner", "other", "foreign"))
    for folder in (inner, other, foreign):
        folder.mkdir()
        (folder / "x").write_text("x")
    desk = Desk(inner, (str(inner), str(other)))
    report = desk.run(f"a = view('x'); b = view('{other}/x'); c = view('{foreign}/x')")
    assert [display.title for display in report.displays] == ["x", f"{other}/x", f"{foreign}/x (outside the workspace)"]


def test_dirty_flags_tell_what_changed_since_the_last_render(desk: Desk) -> None:
    desk.run("a = view(text='x\\ny')")
    handle = desk.get("a")
    assert not handle.dirty
    desk.run("a.SetPos('2')")
    assert handle.dirty_flags == {"pos": True, "policy": False, "source": False}
    desk.run("a.SetTokens(7)")
    assert handle.dirty_flags == {"pos": True, "policy": True, "source": False}
    assert handle.rendered.tokens <= 7
    assert not handle.dirty


def test_rendering_changes_nothing_and_prints_as_its_text(desk: Desk) -> None:
    desk.run("a = view(text='x\\ny')")
    handle = desk.get("a")
    before = handle.GetDigest()
    assert repr(handle.Render(tokens=100)) == "1\tx\n2\ty\n"
    assert handle.GetDigest() == before


@pytest.mark.parametrize("call", ["SetTokens(2000)", "SetLod(0)", "SetPos('0:0')", "Pause()", "Refresh()"])
def test_a_call_without_effect_leaves_a_handle_as_read(desk: Desk, call: str) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', tokens=2000)")
    desk.tail()
    desk.run(f"a.{call}")
    handle = desk.get("a")
    assert (handle.changed, handle.dirty) == (False, False)


@pytest.fixture
def furnished(tmp_path: Path) -> Desk:
    for name in ("src/deep", "docs"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "src" / "main.py").write_text("x")
    (tmp_path / "src" / "a\nb").write_text("x")
    (tmp_path / "src" / "link").symlink_to(tmp_path / "nowhere")
    return Desk(tmp_path)


def test_names_stand_in_order_and_on_a_line_each(furnished: Desk) -> None:
    assert furnished.shown("a = view('src')") == "(directory, 4 entries)\n1\ta\\nb\n2\tdeep/\n3\tlink\n4\tmain.py\n"
    assert furnished.shown("view('docs')") == "(empty directory)\n"
    assert furnished.shown("show(a, lod=2)") == "(directory, 4 entries)\n"
    assert furnished.shown("show(a, lod=1)") == furnished.shown("show(a, lod=0)")


def test_new_and_removed_names_are_reported(furnished: Desk, tmp_path: Path) -> None:
    furnished.run("a = view('src', freq='Sync')")
    furnished.tail()
    assert furnished.tick() == ()
    (tmp_path / "src" / "new.py").write_text("x")
    (tmp_path / "src" / "main.py").unlink()
    (changed,) = [event.delta for event in furnished.tick() if isinstance(event, NodeChanged)]
    assert changed == "entries of src: 1 new (new.py), 1 gone (main.py)"
    assert furnished.shown("show(a, lod=3)").endswith(" link\n-main.py\n+new.py\n")


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_rebuild_shows_the_names_of_then(furnished: Desk, tmp_path: Path, is_gone: bool) -> None:
    text = furnished.shown("a = view('src')")
    if is_gone:
        (tmp_path / "src").rename(tmp_path / "elsewhere")
    else:
        (tmp_path / "src" / "later.py").write_text("x")
    assert furnished.rebuilt().shown("show(a)") == text
