"""Looks: their record, the contents that are sent, and replayed steps with equal inputs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.files.revision import digest_of
from engine.files.view import ViewHandle
from engine.log.events.nodes import RevisionAdopted
from tests.support.boards import Desk, Look, deltas, kinds

_DRAWN = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def _looks(desk: Desk) -> list[tuple[str, int, str]]:
    """Of the last step: file name, number and state."""
    return [(Path(look.path).name, look.look, look.state) for look in desk.steps[-1].looks]


def _same(again: Desk, desk: Desk) -> bool:
    """Whether all steps that ran again showed and told what they had."""
    return [(step.report.displays, step.events) for step in again.steps] == [
        (step.report.displays, step.events) for step in desk.steps
    ]


def _handle(desk: Desk, name: str) -> ViewHandle:
    handle = desk.get(name)
    assert isinstance(handle, ViewHandle)
    return handle


# --- the record ------------------------------------------------------------------------------------------------------


def test_a_look_with_a_new_revision_is_recorded_with_its_number(desk: Desk) -> None:
    path = desk.write("a.py", "one\n")
    report = desk.run("a = view('a.py'); b = view('a.py'); a.Refresh()")
    (adopted,) = (event for event in report.events if isinstance(event, RevisionAdopted))
    assert (adopted.path, adopted.look, adopted.state, adopted.size) == (str(path), 0, "text", 4)
    assert desk.contents == {adopted.digest: b"one\n"}
    desk.write("a.py", "two\n")
    desk.run("a.Refresh(); c = view('none')")
    assert _looks(desk) == [("a.py", 0, "text"), ("none", 0, "missing")]
    desk.run("a.Refresh(); b.Refresh()")
    assert _looks(desk) == []


def test_looks_are_numbered_by_path_within_a_step(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py')")
    desk.namespace["write"] = desk.write
    desk.run("a.Refresh(); a.Refresh(); write('a.py', 'two\\n'); a.Refresh(); b = view('b'); a.Refresh()")
    assert _looks(desk) == [("a.py", 2, "text"), ("b", 0, "missing")]
    desk.write("a.py", "three\n")
    desk.tick()
    assert _looks(desk) == []
    desk.run("a.Run()")
    desk.write("a.py", "four\n")
    desk.tick()
    assert _looks(desk) == [("a.py", 0, "text")]


def test_a_content_is_sent_once_whoever_adopts_it(desk: Desk) -> None:
    for name in ("a", "b", "c"):
        desk.write(name, "the same\n")
    desk.board.begin(1, desk.namespace)
    exec("a = view('a'); b = view('b')", desk.namespace)
    assert kinds(desk.board.finish().events) == ["revision_adopted"] * 2 + ["node_made"] * 2
    assert list(desk.board.looks.take_contents().values()) == [b"the same\n"]
    desk.run("c = view('c'); d = view('a')")
    assert [name for name, *_ in _looks(desk)] == ["c"]
    assert desk.contents == {}


def test_contents_beyond_the_limit_are_recorded_but_not_sent(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.files.looks.STEP_CONTENT_BYTES", 10)
    for name in ("a", "b", "c"):
        desk.write(name, f"{name} 6 b\n")
    desk.run("a = view('a'); b = view('b'); c = view('c')")
    assert len(desk.steps[-1].looks) == 3
    assert list(desk.contents.values()) == [b"a 6 b\n"]
    again = desk.rebuilt()
    assert _same(again, desk)
    assert again.board.looks.take_phrases() == ()
    desk.write("b", "otherwise\n")
    again = desk.rebuilt()
    assert "(what b held then is not kept; Refresh() takes what is there now)" in _handle(again, "b").rendered.text
    assert again.board.looks.take_phrases() == ("looked at b, whose content of then is not kept",)
    assert _handle(again, "c").rendered.text == "1\tc 6 b\n"


# --- a step that runs again ------------------------------------------------------------------------------------------


def test_a_paused_view_replays_its_content(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py'); r = view('a.py', freq='Sync')")
    desk.tick()
    desk.write("a.py", "two\n")
    again = desk.rebuilt()
    assert _same(again, desk)
    assert _handle(again, "a").rendered.text == "1\tone\n"
    again.board.looks.settle()
    events = again.tick()
    assert kinds(events) == ["revision_adopted", "file_changed", "node_changed", "tick_applied"]
    assert deltas(events)[0] == "1 line changed in a.py (+1 -1), first at line 1"
    assert _handle(again, "a").rendered.text == "1\tone\n"
    assert list(again.contents.values()) == [b"two\n"]


def test_an_unchanged_file_gives_no_event_after_a_rebuild(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq='Sync'); none = view('none', freq='Sync')")
    again = desk.rebuilt()
    again.board.looks.settle()
    assert again.tick() == ()
    again.run("a.Refresh(); none.Refresh()")
    assert _looks(again) == []
    assert again.contents == {}


def test_a_content_of_the_record_is_not_sent_again(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py')")
    again = desk.rebuilt()
    again.board.looks.settle()
    again.write("b.py", "one\n")
    again.run("b = view('b.py')")
    assert _looks(again) == [("b.py", 0, "text")]
    assert again.contents == {}


def test_a_replay_with_fewer_looks_keeps_the_newest_revision(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.namespace["put"] = lambda: desk.write("a.py", "two\n")
    desk.run("a = view('a.py'); put(); a.Refresh()")
    desk.run("b = view('a.py')")
    again = desk.rebuilt_as({1: "a = view('a.py')"})
    assert _handle(again, "a").rendered.text == "1\tone\n"
    assert _handle(again, "b").rendered.text == "1\ttwo\n"


def test_of_a_long_record_the_latest_contents_are_held(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.files.looks._HELD_BYTES", 30)
    desk.run("a = view('a.py', freq='Sync'); first = None")
    for number in range(8):
        desk.write("a.py", f"content {number}\n")
        desk.tick()
    desk.run("b = view('a.py')")
    desk.write("a.py", "content 0\n")
    desk.run("c = view('a.py')")
    desk.write("a.py", "later\n")
    again = Desk(desk.root)
    sent: set[str] = set()
    for step in desk.steps:
        for look in step.looks:
            if look.digest and look.digest not in sent:
                sent.add(look.digest)
                again.board.looks.take_content(look.digest, desk.contents[look.digest])
        again.repeat(step, step.looks)
    assert again.steps[-2].report.displays == desk.steps[-2].report.displays
    assert again.board.looks.take_phrases() == ("looked at a.py, whose content of then was too long ago to be held",)
    again.board.looks.settle()
    again.write("d.py", "content 0\n")
    again.run("d = view('d.py')")
    assert again.contents == {}


def test_a_file_changed_during_a_look_is_recorded_as_read(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    reading = desk.files.read

    def changing(path: str, limit: int) -> bytes:
        del desk.files.read
        desk.write("a.py", "two\n")
        return reading(path, limit)

    desk.files.read = changing
    desk.run("a = view('a.py', freq='Sync')")
    assert list(desk.contents.values()) == [b"two\n"]
    assert desk.tick() == ()
    assert _handle(desk.rebuilt(), "a").rendered.text == "1\ttwo\n"


def test_a_replay_never_looks_at_the_disk(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq='Sync'); a.Refresh()")
    desk.tick()
    again = desk.rebuilt()
    assert (again.files.stamps, again.files.reads) == (0, 0)


def test_a_look_of_which_nothing_is_recorded_says_so(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py'); a.Refresh()")
    again = Desk(desk.root)
    again.repeat(desk.steps[0], [])
    assert again.board.looks.take_phrases() == ("looked at a.py, of which nothing is recorded",)
    assert _handle(again, "a").rendered.text == (
        "(what a.py held then is not recorded; Refresh() takes what is there now)\n"
    )
    again.board.looks.settle()
    again.run("a.Refresh()")
    assert _handle(again, "a").rendered.text == "1\tone\n"
    assert _looks(again) == [("a.py", 0, "text")]


def test_steps_of_older_logs_look_at_the_disk(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py'); b = view('b.py')")
    desk.run("a.Refresh(); c = view('a.py')")
    again = Desk(desk.root)
    again.repeat(desk.steps[0], None)
    assert again.board.looks.take_phrases() == tuple(
        f"looked at {name}, and what it saw then is not recorded: it sees what is there now"
        for name in ("a.py", "b.py")
    )
    again.repeat(desk.steps[1], None)
    assert again.board.looks.take_phrases() == ()
    assert _handle(again, "a").rendered.text == "1\tone\n"
    # What was looked at without a record is recorded at the next look, though nothing has changed.
    again.board.looks.settle()
    again.run("a.Refresh(); b.Refresh()")
    assert _looks(again) == [("a.py", 0, "text"), ("b.py", 0, "missing")]
    assert list(again.contents.values()) == [b"one\n"]


def test_what_steps_saw_that_do_not_run_again_is_known(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py')")
    desk.run("b = view('a.py')")
    assert _looks(desk) == []
    again = Desk(desk.root)
    again.board.looks.take_content(digest_of(b"one\n"), b"one\n")
    again.board.looks.know(desk.steps[0].looks)
    again.repeat(desk.steps[1], desk.steps[1].looks)
    assert _handle(again, "b").rendered.text == "1\tone\n"
    assert again.board.looks.take_phrases() == ()


def test_a_lost_content_is_taken_from_an_unchanged_file(desk: Desk) -> None:
    desk.write(".env", "KEY=secret\n")
    desk.run("a = view('.env')")
    (look,) = desk.steps[0].looks
    withheld = Look(look.path, look.look, look.state, look.digest, look.size, lost="held a secret and was not kept")
    again = Desk(desk.root)
    again.repeat(desk.steps[0], [withheld])
    assert _handle(again, "a").rendered.text == "1\tKEY=secret\n"
    assert again.board.looks.take_phrases() == ()
    for content in (b"KEY=other\n", None):
        (desk.root / ".env").unlink() if content is None else desk.write(".env", content)
        again = Desk(desk.root)
        again.repeat(desk.steps[0], [withheld])
        said = "held a secret and was not kept"
        assert again.board.looks.take_phrases() == (f"looked at .env, whose content of then {said}",)
        assert said in _handle(again, "a").rendered.text


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"no end", b"\xff\xfe\x00\x01" * 3000, "h\u00e9\r\n".encode("latin-1")]
)
def test_every_content_is_seen_again_as_it_was(desk: Desk, content: bytes) -> None:
    desk.write("a", content)
    desk.run("a = view('a', freq='Sync'); d = a.GetDigest(), a.Render().text")
    desk.tick()
    desk.write("a", content + b"more")
    desk.tick()
    (desk.root / "a").unlink()
    again = desk.rebuilt()
    assert _same(again, desk)
    assert again.get("d") == desk.get("d")


def test_missing_unreadable_and_large_files_and_directories_are_seen_again(desk: Desk) -> None:
    reading = desk.files.read

    def failing(path: str, limit: int) -> bytes:
        if path.endswith("locked"):
            raise PermissionError(13, "Permission denied", path)  # root may read anything
        return reading(path, limit)

    (desk.root / "folder").mkdir()
    with open(desk.root / "huge", "wb") as file:
        file.truncate(17 << 20)
    desk.write("locked", "x\n")
    desk.files.read = failing
    desk.run("vs = [view(n, freq='Sync') for n in ('none', 'folder', 'huge', 'locked', 'none/below')]")
    desk.tick()
    assert _looks(desk) == []
    states = [look.state for look in desk.steps[0].looks]
    assert states == ["missing", "directory", "binary", "unreadable", "missing"]
    (desk.root / "folder").rmdir()
    (desk.root / "huge").unlink()
    desk.write("none", "there\n")
    again = desk.rebuilt()
    assert _same(again, desk)
    again.board.looks.settle()
    changed = [event.change for event in again.tick() if event.kind == "file_changed"]
    assert changed == ["created", "deleted", "deleted", "modified"]


def test_an_undecodable_file_name_is_replayed(desk: Desk) -> None:
    (desk.root / os.fsdecode(b"caf\xe9")).write_text("x\n")
    desk.run("import os; a = view(os.fsdecode(b'caf\\xe9')); a.Refresh()")
    assert [look.path for look in desk.steps[0].looks] == [str(desk.root / "caf\ufffd")]
    again = desk.rebuilt()
    assert _handle(again, "a").rendered.text == "1\tx\n"
    assert again.board.looks.take_phrases() == ()


def test_a_text_with_a_path_is_recorded_after_its_first_look(desk: Desk) -> None:
    desk.write("a.py", "saved\n")
    desk.run("a = view('a.py', text='unsaved\\n')")
    assert _looks(desk) == []
    desk.run("a.Refresh()")
    assert _looks(desk) == [("a.py", 0, "text")]
    desk.write("a.py", "later\n")
    again = desk.rebuilt()
    assert _handle(again, "a").rendered.text == "1\tsaved\n"
    assert _same(again, desk)


def test_a_look_between_steps_is_recorded_with_the_next(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py')")
    desk.write("a.py", "two\n")
    exec("view('a.py')", desk.namespace)  # as a thread that a statement left
    desk.run("b = view('a.py')")
    assert _looks(desk) == [("a.py", 0, "text")]
    assert _handle(desk.rebuilt(), "b").rendered.text == "1\ttwo\n"


# --- what a model has read -------------------------------------------------------------------------------------------


def test_handles_and_feed_are_the_same_after_a_rebuild(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq='Sync').SetLod(0); dirty = a.dirty, a.changed")
    desk.run("a.SetTokens(99)")
    desk.tail()
    desk.run("read = a.dirty, a.changed; b = view('a.py')")
    desk.write("a.py", "two\n")
    desk.tick()
    desk.run("dirty = a.dirty, a.changed")
    again = desk.rebuilt()
    assert again.get("dirty") == desk.get("dirty") == (True, True)
    assert again.get("read") == desk.get("read") == (False, False)
    first = again.tail()
    assert "+two" in first
    assert first == desk.tail()
    again = desk.rebuilt()
    assert again.tail() == desk.tail()
    assert "+two" not in again.tail()


# --- whatever happens ------------------------------------------------------------------------------------------------

_NAMES = ("a", "b", "c/d")
_CONTENTS = st.sampled_from([b"one\n", b"two\n", b"one\ntwo\n", b"", b"\xff\x00\xfe", b"caf\xe9\n", None, "folder"])
_SOURCES = st.sampled_from([
    "h{n} = view('{p}')", "h{n} = view('{p}', freq='Sync')", "h{n} = view('{p}', text='mine\\n', freq='Sync')",
    "h{n}.Refresh()", "h{n}.Run()", "h{n}.Pause()", "h{n}.SetLod(0)", "del h{n}", "show(h{n})", "h{n}.Scroll(1)",
    "h{n}.min_turn_interval = 2", "x{n} = h{n}.dirty, h{n}.changed, h{n}.last_tick_time, h{n}.obj_id, repr(h{n})",
    "h{n}.Refresh(); put('{p}', b'mid\\n'); h{n}.Refresh(); g{n} = view('{p}'); 1 / 0",
])  # fmt: skip
_MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(_NAMES), _CONTENTS),
        st.tuples(st.just("run"), st.sampled_from(_NAMES), st.integers(0, 2), _SOURCES),
        st.tuples(st.just("tick")),
        st.tuples(st.just("tail")),
    ),
    min_size=4,
    max_size=30,
)


def _put(desk: Desk, name: str, content: bytes | str | None) -> None:
    path = desk.root / name
    path.parent.mkdir(exist_ok=True)
    if path.is_dir():
        path.rmdir()
    elif path.exists():
        path.unlink()
    if isinstance(content, bytes):
        desk.write(name, content)
    elif content is not None:
        path.mkdir()


def _play(desk: Desk, moves: list[tuple[object, ...]]) -> None:
    desk.namespace["put"] = lambda name, content: _put(desk, name, content)
    for move in moves:
        match move:
            case ("put", str(name), content):
                assert isinstance(content, bytes | str | None)
                _put(desk, name, content)
            case ("run", str(name), int(number), str(source)):
                with suppress(NameError, ZeroDivisionError):
                    desk.run(source.format(n=number, p=name))
            case ("tick",):
                desk.tick()
            case _:
                desk.tail()


def _state(desk: Desk) -> object:
    values = {name: value for name, value in desk.namespace.items() if name[0] == "x"}
    return values, [(node.obj_id, node.GetDigest(), node.rendered.text) for node in desk.board.handles()]


_AFTER = st.lists(st.tuples(st.just("put"), st.sampled_from(_NAMES), _CONTENTS), max_size=3)


@settings(_DRAWN, max_examples=25)
@given(moves=_MOVES, after=_AFTER)
def test_the_same_log_contents_and_clock_give_the_same_events(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[object, ...]], after: list[tuple[object, ...]]
) -> None:
    _check_again(Desk(tmp_path_factory.mktemp("desk")), moves, after)


@pytest.mark.slow
@settings(_DRAWN, max_examples=2_000)
@given(moves=_MOVES, after=_AFTER)
def test_equal_logs_contents_and_clocks_give_equal_events(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[object, ...]], after: list[tuple[object, ...]]
) -> None:
    _check_again(Desk(tmp_path_factory.mktemp("desk")), moves, after)


def _check_again(desk: Desk, moves: list[tuple[object, ...]], after: list[tuple[object, ...]]) -> None:
    _play(desk, moves)
    _play(desk, after)
    again = Desk(desk.root)
    again.namespace["put"] = lambda name, content: None
    for digest, data in desk.contents.items():
        again.board.looks.take_content(digest, data)
    for step in desk.steps:
        try:
            again.repeat(step, step.looks)
        except (NameError, ZeroDivisionError):
            again.steps[-1].after_reading = step.after_reading
        again.read_steps = desk.read_steps
        assert again.steps[-1].events == step.events
        assert again.steps[-1].report.displays == step.report.displays
    if desk.is_read:
        again.board.read()
    assert again.board.looks.take_phrases() == ()
    assert again.files.stamps == again.files.reads == 0
    assert _state(again) == _state(desk)
    assert again.tail() == desk.tail()
    # Then both live on alike: what differs now comes as the same deltas.
    again.board.looks.settle()
    again.round = desk.round = max(again.round, desk.round)
    again.seconds = desk.seconds
    for each in (desk, again):
        each.tick()
    assert again.steps[-1].events == desk.steps[-1].events
    assert _state(again) == _state(desk)
