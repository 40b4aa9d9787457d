"""Looks: their record, the contents that are sent, and replayed steps with equal inputs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.log.events.nodes import RevisionAdopted
from tests.support.boards import Desk, Look, kinds

_DRAWN = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


def _looks(desk: Desk) -> list[tuple[str, int, str]]:
    """Of the last step: file name, number and state."""
    return [(Path(look.path).name, look.look, look.state) for look in desk.steps[-1].looks]


def _same(again: Desk, desk: Desk) -> bool:
    """Whether all steps that ran again showed and told what they had."""
    return [(step.report.displays, step.events) for step in again.steps] == [
        (step.report.displays, step.events) for step in desk.steps
    ]


def test_look_with_a_new_revision_is_recorded(desk: Desk) -> None:
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
    assert "(the earlier content of b is not kept; Refresh() shows the current content)" in again.get("b").rendered.text
    assert again.board.looks.take_phrases() == ("looked at b, but its earlier content is not kept",)
    assert again.get("c").rendered.text == "1\tc 6 b\n"


def test_a_replay_with_fewer_looks_keeps_the_newest_revision(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.namespace["put"] = lambda: desk.write("a.py", "two\n")
    desk.run("a = view('a.py'); put(); a.Refresh()")
    desk.run("b = view('a.py')")
    again = desk.rebuilt_as({1: "a = view('a.py')"})
    assert again.get("a").rendered.text == "1\tone\n"
    assert again.get("b").rendered.text == "1\ttwo\n"


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
    assert again.board.looks.take_phrases() == (
        "looked at a.py, but its earlier content is no longer stored, because it is too old",
    )
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
    assert desk.rebuilt().get("a").rendered.text == "1\ttwo\n"


def test_a_lost_content_is_taken_from_an_unchanged_file(desk: Desk) -> None:
    desk.write(".env", "KEY=secret\n")
    desk.run("a = view('.env')")
    (look,) = desk.steps[0].looks
    withheld = Look(
        look.path, look.look, look.state, look.digest, look.size, lost="contained a secret and was not saved"
    )
    again = Desk(desk.root)
    again.repeat(desk.steps[0], [withheld])
    assert again.get("a").rendered.text == "1\tKEY=secret\n"
    assert again.board.looks.take_phrases() == ()
    for content in (b"KEY=other\n", None):
        (desk.root / ".env").unlink() if content is None else desk.write(".env", content)
        again = Desk(desk.root)
        again.repeat(desk.steps[0], [withheld])
        said = "contained a secret and was not saved"
        assert again.board.looks.take_phrases() == (f"looked at .env, but its earlier content {said}",)
        assert said in again.get("a").rendered.text


def test_an_undecodable_file_name_is_replayed(desk: Desk) -> None:
    (desk.root / os.fsdecode(b"caf\xe9")).write_text("x\n")
    desk.run("import os; a = view(os.fsdecode(b'caf\\xe9')); a.Refresh()")
    assert [look.path for look in desk.steps[0].looks] == [str(desk.root / "caf\ufffd")]
    again = desk.rebuilt()
    assert again.get("a").rendered.text == "1\tx\n"
    assert again.board.looks.take_phrases() == ()


def test_text_with_path_is_recorded_after_its_first_look(desk: Desk) -> None:
    desk.write("a.py", "saved\n")
    desk.run("a = view('a.py', text='unsaved\\n')")
    assert _looks(desk) == []
    desk.run("a.Refresh()")
    assert _looks(desk) == [("a.py", 0, "text")]
    desk.write("a.py", "later\n")
    again = desk.rebuilt()
    assert again.get("a").rendered.text == "1\tsaved\n"
    assert _same(again, desk)


def test_a_look_between_steps_is_recorded_with_the_next(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py')")
    desk.write("a.py", "two\n")
    exec("view('a.py')", desk.namespace)  # as a thread that a statement left
    desk.run("b = view('a.py')")
    assert _looks(desk) == [("a.py", 0, "text")]
    assert desk.rebuilt().get("b").rendered.text == "1\ttwo\n"


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
