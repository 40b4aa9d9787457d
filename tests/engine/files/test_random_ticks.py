"""Random statements, ticks, payloads and files: a re-run gives equal events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.files.node import NodeBase
from engine.files.view import ViewHandle
from engine.log.statements import UpdatePayload
from tests.support.boards import Desk
from tests.support.examples import examples

_FILES = ("a.txt", "b.txt")
_VIEWS = ("v0", "v1", "v2", "v3")
_CONTENTS = st.sampled_from([b"", b"one\n", b"one\ntwo\n", b"\xff\x00", b"\xef\xbb\xbfone\r\n", "漢\n".encode()])
_FREQUENCIES = st.sampled_from(["'Sync'", "'Async'", "('Periodic', 5)", "('Periodic', 1e-9)", "['Periodic', 1e9]"])
_STATEMENTS = st.one_of(
    st.builds("{} = view('{}', freq={})".format, st.sampled_from(_VIEWS), st.sampled_from(_FILES), _FREQUENCIES),
    st.builds("{}.Run({})".format, st.sampled_from(_VIEWS), _FREQUENCIES),
    st.builds("{}.{}".format, st.sampled_from(_VIEWS), st.sampled_from(["Pause()", "Refresh()", "SetTokens(5)"])),
    st.builds("{}.min_turn_interval = {}".format, st.sampled_from(_VIEWS), st.integers(1, 3)),
    st.builds("seen = [len(tick()), [{}.Render().text for _ in tick()]]".format, st.sampled_from(_VIEWS)),
    st.just("del v0; v0 = view(text='fixed')"),
    st.just("g = group(v0, v1)"),
)
_Action = Callable[[Desk], object]


def _write(name: str, content: bytes) -> _Action:
    return lambda desk: desk.write(name, content)


def _delete(name: str) -> _Action:
    return lambda desk: (desk.root / name).unlink(missing_ok=True)


def _wait(seconds: float) -> _Action:
    def wait(desk: Desk) -> None:
        desk.seconds += seconds

    return wait


def _tick(contents: list[bytes], held: bool) -> _Action:
    """A tick with what is prepared now, and perhaps with what was left from the one before."""
    left: list[UpdatePayload] = []

    def tick(desk: Desk) -> None:
        wishes = [name for name in _VIEWS if isinstance(node := desk.get(name), NodeBase) and list(node.wants())]
        payloads = [desk.prepared(name, content) for name, content in zip(wishes, contents, strict=False)]
        if held and not left:
            left.extend(payloads)
        desk.tick(*left, *payloads)

    return tick


_ACTIONS = st.one_of(
    st.builds(lambda source: lambda desk: desk.run(source), _STATEMENTS),
    st.builds(_write, st.sampled_from(_FILES), _CONTENTS),
    st.builds(_delete, st.sampled_from(_FILES)),
    st.builds(_wait, st.sampled_from([0.5, 5.0, 1e6, -50.0])),
    st.builds(_tick, st.lists(_CONTENTS, max_size=4), st.booleans()),
)


@pytest.mark.slow
@examples(10)
@given(st.lists(_ACTIONS, max_size=25))
def test_equal_steps_contents_and_clocks_give_equal_events(actions: list[_Action]) -> None:
    with TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        desk.write("a.txt", b"one\n")
        desk.run("v0 = view('a.txt', freq='Sync'); v1 = view('b.txt', freq='Async'); v2 = view('a.txt'); v3 = v1")
        for action in actions:
            action(desk)
        for name in _FILES:
            (desk.root / name).unlink(missing_ok=True)
        other = desk.rebuilt()
        assert [step.events for step in other.steps] == [step.events for step in desk.steps]
        assert other.namespace.get("seen") == desk.namespace.get("seen")
        for name in _VIEWS:
            ours, theirs = desk.get(name), other.get(name)
            assert isinstance(ours, ViewHandle)
            assert isinstance(theirs, ViewHandle)
            assert (theirs.obj_id, theirs.state()) == (ours.obj_id, ours.state())
