"""The board: what an execution is reported to have shown, which nodes live, and ticks that statements ask for."""

from __future__ import annotations

import copy
import gc

import pytest

from engine.context.tail.sections import Tail
from engine.core.execution import Location
from engine.core.tokens import count
from engine.files.node import NodeChangeError
from engine.files.tails import News
from tests.support.boards import Desk, deltas, kinds


def test_a_view_is_displayed_once_at_its_final_state(desk: Desk) -> None:
    path = desk.write("a.py", "".join(f"line {number}\n" for number in range(1, 101)))
    report = desk.run("a = view('a.py'); a.SetPos('50'); a.SetTokens(40)")
    (display,) = report.displays
    assert display.tokens == count(display.text) <= 40
    assert "50\tline 50\n" in display.text
    assert (display.obj_id, display.title) == ("view-1.1", "a.py:50")
    first = int(display.text.splitlines()[1].split("\t")[0])
    assert report.locations == (Location(path=str(path), line=first),)
    assert desk.board.finish().displays == ()


def test_show_displays_at_a_policy_without_changing_it(desk: Desk) -> None:
    desk.run("a = view(text='some words\\n' * 50)")
    assert desk.run("a").displays == ()
    (display,) = desk.run("show(a, tokens=20)").displays
    assert display.tokens <= 20
    handle = desk.get("a")
    assert handle.tokens == 2000
    assert desk.run("show(a)").displays[0].tokens > 20


def test_displays_stand_in_the_order_of_making_and_showing(desk: Desk) -> None:
    desk.run("a = view(text='a'); b = view(text='b')")
    report = desk.run("c = view(text='c'); show(b); show(a)")
    assert [display.text for display in report.displays] == ["1\tc\n", "1\tb\n", "1\ta\n"]


def test_what_a_failing_statement_made_is_reported_too(desk: Desk) -> None:
    desk.board.begin(1, desk.namespace)
    with pytest.raises(ZeroDivisionError):
        exec("a = view(text='a').SetTokens(9); 1 / 0", desk.namespace)
    report = desk.board.finish()
    assert len(report.displays) == 1
    assert kinds(report.events) == ["node_made", "method_called"]


def test_report_contains_only_its_own_execution(desk: Desk) -> None:
    desk.board.begin(1, desk.namespace)
    exec("a = view(text='a').SetTokens(9)", desk.namespace)
    desk.board.begin(2, desk.namespace)
    assert desk.board.finish().displays == desk.board.finish().events == ()


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("view()", TypeError),
        ("view('a', text=7)", TypeError),
        ("view(7)", TypeError),
        ("view(text=7)", TypeError),
        ("show(7)", TypeError),
        ("view('mcp://x/y')", ValueError),
        ("show(view(text='x'), lod=99)", ValueError),
        ("show(view(text='x'), tokens=-1)", ValueError),
    ],
)
def test_misuse_is_an_error_of_the_statement(desk: Desk, statement: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"\w"):
        desk.run(statement)


def test_a_view_that_failed_to_be_made_leaves_no_handle(desk: Desk) -> None:
    with pytest.raises(ValueError, match="tokens"):
        desk.run("view(text='x', tokens=0)")
    assert desk.board.tail(desk.namespace, 100, News()) == (Tail("", 0, {}, {}), ())


def test_unreachable_running_handle_is_gone(desk: Desk) -> None:
    desk.write("a.py", "x\n")
    report = desk.run("view('a.py').Run()")
    assert report.displays[0].text == "1\tx\n"
    gc.collect()
    stamps = desk.files.stamps
    desk.tick()
    assert desk.files.stamps == stamps
    assert desk.tail() == ""


def test_deleted_name_ends_handle_and_document(desk: Desk) -> None:
    desk.write("a.py", "x\n")
    desk.run("a = view('a.py', freq='Sync')")
    desk.tail()
    desk.run("del a")
    gc.collect()
    assert desk.tail() == ""
    desk.run("a = view('a.py')")
    assert desk.files.reads == 2


def test_old_revisions_are_freed_without_garbage_collection(desk: Desk) -> None:
    desk.write("a.py", "x\n" * 100)
    desk.run("a = view('a.py', freq='Sync')")
    # What was displayed is held, because later differences are told against it; what came after it is not.
    desk.write("a.py", "z\n" * 100)
    desk.tick()
    handle = desk.get("a")
    ruler = handle.revision.ruler(str, count)
    gc.disable()
    try:
        before = len(gc.get_referrers(ruler))
        desk.write("a.py", "y\n" * 100)
        desk.tick()
        assert before >= 1
        assert len(gc.get_referrers(ruler)) == before - 1
    finally:
        gc.enable()


def test_handles_kept_in_containers_live_under_their_ids(desk: Desk) -> None:
    desk.run("kept = [view(text='a')]; _hidden = view(text='b'); named = also = view(text='c')")
    rows = desk.board.tail(desk.namespace, 1000, News())[1]
    assert [(row.name, row.obj_id) for row in rows] == [
        ("view-1.1", "view-1.1"),
        ("view-1.2", "view-1.2"),
        ("named", "view-1.3"),
    ]


def test_odd_keys_and_objects_in_a_namespace_do_no_harm(desk: Desk) -> None:
    class Rude:
        @property
        def __class__(self) -> type:
            raise RuntimeError("asked for its class")

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("compared")

        def __hash__(self) -> int:
            raise RuntimeError("hashed")

    desk.run("a = view(text='a')")
    strange: dict[object, object] = {7: desk.get("a"), "no name": desk.get("a"), "rude": Rude(), "ok": desk.get("a")}
    rows = desk.board.tail(strange, 1000, News())[1]
    assert [row.name for row in rows] == ["ok"]


def test_the_listing_is_a_few_lines_with_names(desk: Desk) -> None:
    assert repr(desk.board.ls()) == "no handles; view(path) makes one"
    desk.run("many = [view(text='x') for _ in range(30)]; one = many[0]")
    lines = repr(desk.board.ls()).splitlines()
    assert lines[0].startswith("one: view text, paused, lod 0, 3/2000")
    assert len(lines) == 21
    assert lines[-1] == "... 10 more handles"


def test_rows_say_all_as_zero_and_carry_exact_tokens(desk: Desk) -> None:
    desk.run("a = view(text='x\\ny', tokens=All, freq='Sync')")
    tail, (row,) = desk.board.tail(desk.namespace, 1000, News())
    assert (row.tokens, row.used_tokens, row.mode, row.freq) == (0, count("1\tx\n2\ty\n"), "running", "Sync")
    assert "/All" in tail.text
    assert tail.tokens == count(tail.text)


def test_the_changed_flag_is_set_until_the_next_tail(desk: Desk) -> None:
    desk.write("a.py", "x\n")
    desk.run("a = view('a.py', freq='Sync')\nb = group('*.py')")
    assert ", changed" not in desk.tail()
    desk.write("a.py", "y\n")
    desk.tick()
    assert ", changed" in desk.tail()
    desk.run("a.SetTokens(99)")
    assert ", changed" in desk.tail()


def test_many_handles_cost_one_look_per_tick(desk: Desk) -> None:
    desk.write("a.py", "x\n")
    desk.run("many = [view('a.py', freq='Sync') for _ in range(1000)]")
    desk.tick()
    stamps = desk.files.stamps
    desk.tick()
    assert desk.files.reads == 1
    assert desk.files.stamps == stamps + 1


def test_part_of_a_file_keeps_its_line_numbers(desk: Desk) -> None:
    path = desk.write("a.py", "".join(f"line {number}\n" for number in range(1, 101)))
    report = desk.run("a = view('a.py', '41', text='forty\\nforty-one\\nforty-two\\n', first_line=40)")
    (display,) = report.displays
    assert display.title == "a.py:41"
    assert display.text == "(lines 40 to 42 alone)\n40\tforty\n41\tforty-one\n42\tforty-two\n"
    assert report.locations == (Location(path=str(path), line=40),)
    for source, title in (
        ("a.Scroll(1)", "a.py:42"),
        ("a.SetPos('1')", "a.py:40"),
        ("a.SetPos('99')", "a.py:42 (past the end)"),
    ):
        desk.run(source)
        handle = desk.get("a")
        assert handle.title == title
    (display,) = desk.run("a.SetTokens(20).SetPos('99').Refresh(); show(a)").displays
    assert "99\tline 99" in display.text


@pytest.mark.parametrize("first_line", ["0", "-1", "'4'", "True", "10**13", "None"])
def test_a_first_line_is_the_number_of_a_line(desk: Desk, first_line: str) -> None:
    with pytest.raises(ValueError, match="first_line"):
        desk.run(f"a = view(text='x', first_line={first_line})")


@pytest.mark.parametrize("name", ["view", "group", "show", "pin", "unpin", "tick"])
def test_wrong_argument_names_the_called_function(desk: Desk, name: str) -> None:
    call = desk.board.names()[name]
    assert callable(call)
    with pytest.raises(TypeError, match=rf"^{name}\(\)"):
        call(unheard_of=1)


@pytest.mark.parametrize("how", ["copy", "deepcopy"])
def test_handle_cannot_be_copied(desk: Desk, how: str) -> None:
    desk.run("a = view(text='x'); g = group(a)")
    for name in "ag":
        with pytest.raises(TypeError, match=r"cannot be copied; call (view|group)\(\) to make another"):
            getattr(copy, how)(desk.get(name))


_IN_A_THREAD = """
import threading
refused = []
def change():
    for act in acts:
        try:
            act()
        except RuntimeError as error:
            refused.append(error)
thread = threading.Thread(target=change)
thread.start()
thread.join()
"""
_ACTS = (
    "a.SetPos(2)", "a.Scroll(1)", "a.SetTokens(9)", "a.SetLod(0)", "a.Run()", "a.Pause()", "a.Refresh()",
    "setattr(a, 'min_turn_interval', 2)", "a.Tick(1.0, 1, 'sync')", "tick()",
    "pin(a, 'why')", "unpin(a)",
)  # fmt: skip


def test_statement_tick_sees_changes_at_once(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.write("b.py", "one\n")
    desk.run("a = view('a.py', freq='Sync'); b = view('b.py', freq='Sync'); c = view('a.py')")
    desk.tick()
    desk.write("a.py", "two\n")
    report = desk.run("changed = tick(); shown = a.Render().text, c.Render().text")
    assert desk.get("changed") == [desk.get("a")]
    assert desk.get("shown") == ("1\ttwo\n", "1\tone\n")
    assert kinds(report.events) == [
        "revision_adopted", "statement_ticked", "file_changed", "node_changed", "tick_applied",
    ]  # fmt: skip
    ticked = report.events[1]
    assert (ticked.round_id, ticked.now, ticked.nodes) == (1, desk.seconds, 2)
    assert "1 line changed in a.py" in desk.tail()
    assert desk.tick() == ()


def test_statement_ticks_look_once_at_each_file(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq='Sync'); b = view('a.py', freq='Sync')")
    desk.tick()
    stamps = desk.files.stamps
    desk.run("tick(); tick()")
    assert desk.files.stamps == stamps + 2


def test_statement_ticks_respect_the_interval_of_rounds(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq='Sync'); a.min_turn_interval = 3")
    desk.tick()
    desk.write("a.py", "two\n")
    desk.run("early = len(tick())")
    desk.tick()
    desk.tick()
    desk.run("late = len(tick())")
    assert (desk.get("early"), desk.get("late")) == (0, 0)
    desk.tick()
    assert desk.text("a") == "1\ttwo\n"


def test_statement_ticks_periodic_views_in_time(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq=('Periodic', 60))")
    desk.tick()
    desk.write("a.py", "two\n")
    desk.namespace["wait"] = lambda seconds: setattr(desk, "seconds", desk.seconds + seconds)
    desk.run("counts = []; wait(58); counts.append(len(tick())); wait(2); counts.append(len(tick()))")
    assert desk.get("counts") == [0, 1]


def test_statement_with_ticks_runs_again_equally(desk: Desk) -> None:
    path = desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq='Sync'); b = view('a.py', freq=('Periodic', 60)); seen = []")
    desk.tick()
    for text in ("two", "three"):
        desk.write("a.py", f"{text}\n")
        desk.seconds += 40
        desk.namespace["rewrite"] = lambda content: desk.write("a.py", content)
        desk.run("seen += [len(tick()), a.Render().text, b.Render().text, b.last_tick_time]")
    path.unlink()
    other = desk.rebuilt()
    assert other.get("seen") == desk.get("seen")
    assert [step.events for step in other.steps] == [step.events for step in desk.steps]
    assert [other.get(name).state() for name in "ab"] == [desk.get(name).state() for name in "ab"]


def test_a_thread_that_tries_to_change_a_node_is_refused(desk: Desk) -> None:
    desk.write("a.py", "one\ntwo\n")
    desk.run("a = view('a.py', freq='Sync')")
    desk.write("a.py", "three\n")
    before = desk.get("a").state()
    desk.namespace["acts"] = [eval(f"lambda: {act}", desk.namespace) for act in _ACTS]
    report = desk.run(_IN_A_THREAD)
    refused = desk.get("refused")
    assert [type(error) for error in refused] == [NodeChangeError] * len(_ACTS)
    assert [str(error).partition("()")[0] for error in refused] == [
        "SetPos", "Scroll", "SetTokens", "SetLod", "Run", "Pause", "Refresh", "min_turn_interval", "Tick", "tick",
        "pin", "unpin",
    ]  # fmt: skip
    assert "called from a thread or outside a statement" in str(refused[0])
    assert desk.get("a").state() == before
    assert report.events == ()


def test_nothing_changes_a_node_between_statements(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py')")
    with pytest.raises(NodeChangeError, match="Refresh"):
        desk.get("a").Refresh()


def test_a_thread_may_look_and_make_views(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py')")
    desk.namespace["acts"] = [eval(act, desk.namespace) for act in ("lambda: made.append(view('a.py'))", "a.Render")]
    desk.run("made = []" + _IN_A_THREAD)
    assert desk.get("refused") == []
    assert isinstance(desk.get("made"), list)
    assert deltas(desk.tick()) == []
