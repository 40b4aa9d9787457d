"""The examples of "Agent Loop Design: Executable Context as a Python Statement Timeline" run as written.

Sections 7, 8, 10 and 12 are sequences of whole sessions, which `tests/acceptance` plays. The page
`docs/published-documents.md` has the words that differ.
"""

from __future__ import annotations

import os
from ast import literal_eval
from pathlib import Path

import pytest

from engine import Session
from engine.context.model import ModelSignal, Prompt, TextDelta
from engine.core.execution import ChangeInfo, ExecutionStatus, NamespaceDiff, StatementKind, TypeInfo
from engine.files.node import NodeBase
from engine.files.ticks import MOST, PHASES
from engine.log.events.conversation import ToolResult
from engine.log.events.execution import ExecutionFinished, StatementRecorded
from engine.log.events.nodes import (
    AsyncPayloadApplied,
    AsyncPayloadPrepared,
    GroupRecomputed,
    MethodCalled,
    NodeChanged,
    PayloadBasis,
    PayloadCost,
    PayloadKind,
    TickApplied,
)
from engine.log.statements import UpdatePayload
from tests.support.models import AnsweringModel
from tests.support.sessions import events_of, session_in, value_of

pytestmark = pytest.mark.anyio

FOO = (
    "// This is foo.cs. It is a long, long c# file with a lot of code.\n"
    + "// This comment itself goes on for over 15000 tokens.\n" * 1500
    + "class Foo {\n  void Bar() {}\n}\n"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory in a home directory with `~/Foo.cs`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "Foo.cs").write_text(FOO)
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


# --- section 1.2: the first turn and the next one --------------------------------------------------------------------

FIRST = """\
<script type="text/x-python">
foo_cs_file = open("~/Foo.cs")
foo_cs = view(foo_cs_file, pos=0, tokens=2000)
</script>
"""
LATER = """\
<script type="text/x-python">
foo_cs.SetLod(1).SetTokens(All) # When view is reevaluated next, it will render only the summary
</script>
"""


async def test_turns_of_section_1_2(project: Path, tmp_path: Path) -> None:
    replies = [f"I look.\n{FIRST}", "Seen.", LATER, "Done.", "Yes."]

    def answer(prompt: Prompt) -> list[ModelSignal]:
        del prompt
        return [TextDelta(replies.pop(0))]

    model = AnsweringModel(answer)
    async with session_in(project, state=tmp_path / "state", model=model, HOME=str(tmp_path)) as session:
        session.set_mode("auto")
        await session.accept("Look at Foo.cs").end()
        shown = next(each.text for each in model.prompts[1].messages if isinstance(each, ToolResult))
        assert "// This is foo.cs. It is a long, long c# file with a lot of code." in shown
        assert "class Foo" not in shown, "2000 tokens end in the comment"
        assert "lines below" in shown
        await session.accept("Only a summary, please").end()
        await session.accept("/compact").end()
        await session.accept("Go on").end()
        assert (
            'foo_cs_file = open("~/Foo.cs")\n'
            "# foo_cs = view(foo_cs_file, pos=0, tokens=2000)  # statement 1, until statement 2\n"
            "foo_cs = view(foo_cs_file, pos=0, tokens=All, lod=1)\n"
        ) in model.prompts[-1].tail
        assert "foo_cs.SetLod(1).SetTokens(All) # When view is reevaluated next" in model.prompts[-1].tail
        # "When view is reevaluated next, it will render only the summary."
        assert "class Foo" in (await value_of(session, "foo_cs.Render().text") or "")


# --- sections 4, 5 and 9: the calls of statements --------------------------------------------------------------------

CALLS = (
    # 9.1 Core constructors
    ('foo_cs = view("~/Foo.cs", pos="0:0", tokens=2000)', None),
    ("foo_cs.mode, foo_cs.pos, foo_cs.tokens, foo_cs.lod", "('paused', '0:0', 2000, 0)"),
    ('foo_cs.Run(freq="Sync").mode', "'running'"),
    ('foo_sum = group(foo_cs, tokens=500, lod=2).Run(freq="Sync")', None),
    ("foo_sum.mode, foo_sum.freq, foo_sum.tokens, foo_sum.lod", "('running', 'Sync', 500, 2)"),
    # 9.2 View controls
    ("foo_cs.SetLod(1).lod", "1"),
    ("foo_cs.SetTokens(10000).tokens", "10000"),
    ('foo_cs.SetPos("120:0").pos', "'120:0'"),
    ("foo_cs.Scroll(50).pos", "'170:0'"),
    ("foo_cs.Refresh().dirty", "False"),
    ("foo_cs.Pause().mode", "'paused'"),
    # 9.3 "Group == summary" usage
    ("foo_detail = group(foo_cs, tokens=4000, lod=0)", None),
    ("foo_detail.members == (foo_cs,), foo_detail.tokens, foo_detail.lod", "(True, 4000, 0)"),
    ("foo_sum.SetTokens(300).tokens", "300"),
    ("foo_sum.SetLod(3).lod", "3"),
    # 9.4 Running updates
    ('[foo_cs.Run(freq=each).mode for each in ("Sync", ("Periodic", 5), "Periodic", "Async")]', str(["running"] * 4)),
    ("foo_cs.min_turn_interval", "1"),
    # 4.3 Injected functions
    ('[view("~/Foo.cs", pos=each).pos for each in ("3:2", "3", 0)]', "['3:2', '3', 0]"),
    ('view("~/Foo.cs", "0:0", 100, 1, "running", "Sync").freq', "'Sync'"),
    ('view("~/Foo.cs", mode="paused").mode, view("~/Foo.cs", freq="paused").mode', "('paused', 'paused')"),
    ('[view("~/Foo.cs", mode="running", freq=each).mode for each in ("Sync", "Periodic", "Async")]', None),
    ('group(foo_cs, foo_sum, tokens=900, lod=1, mode="running", freq="Sync").freq', "'Sync'"),
    ('group(foo_cs, mode="paused").mode', "'paused'"),
    ("type(tick())", "<class 'list'>"),
    ("str(ls()).splitlines()[0].startswith('foo_cs: view ')", "True"),
    ("show(foo_cs, lod=1, tokens=50)", None),
    ('pin(foo_cs, reason="the file to change").pinned', "'the file to change'"),
    # 5.1 Common interface
    ("type(foo_cs).__name__, type(foo_sum).__name__", "('ViewHandle', 'GroupHandle')"),
    ("[type(each).__mro__[1].__name__ for each in (foo_cs, foo_sum)]", "['NodeBase', 'NodeBase']"),
    ("foo_cs.obj_id, foo_cs.obj_type, foo_sum.obj_type", "('view-1.1', 'view', 'group')"),
    ("type(foo_cs.last_tick_turn), type(foo_cs.dirty)", "(<class 'int'>, <class 'bool'>)"),
    ("sorted(foo_cs.GetDigest())[:4]", "['encoding', 'final_newline', 'freq', 'line_ends']"),
    ("type(foo_cs.Render(lod=None, tokens=None)).__name__", "'RenderedView'"),
    ("foo_cs.Render(lod=0, tokens=60).tokens <= 60", "True"),
    ('foo_cs.Run("Sync"); type(foo_cs.Tick(now=1.0, turn_id=9, tick_kind="sync")).__name__', "'TickResult'"),
    ("foo_sum.OnMemberChanged(foo_cs)", "True"),
    # 5.2 ViewHandle
    ("foo_cs.path.endswith('/Foo.cs')", "True"),
    ("[*foo_cs.window_spec]", "['range_lines', 'range_tokens', 'anchors']"),
    ("[*foo_cs.dirty_flags]", "['pos', 'policy', 'source']"),
    ("type(foo_cs.rendered).__name__, len(foo_cs.source_fingerprint)", "('RenderedView', 16)"),
    ('foo_cs.SetPos("10:0").Scroll(delta_lines=5).pos', "'15:0'"),
    ("foo_cs.Scroll(delta_tokens=100).pos > '15:0'", "True"),
    ('foo_cs.Run(freq=("Periodic", 5)).freq', "('Periodic', 5.0)"),
    # 5.3 GroupHandle
    ("foo_sum.members == (foo_cs,), foo_sum.dirty", "(True, True)"),
    ("type(foo_sum.summary_rendered).__name__, foo_sum.dirty", "('RenderedView', False)"),
    ("[*foo_sum.summary_policy]", "['tokens', 'lod', 'salience_rules']"),
    ('other = view("~/Foo.cs", tokens=50); foo_sum.Add(other).members == (foo_cs, other)', "True"),
    ("foo_sum.Remove(other).members == (foo_cs,)", "True"),
    ("foo_cs.SetLod(0); foo_sum.dirty, foo_sum.Refresh().dirty", "(True, False)"),
)
"""Statements, and the value of each; None if the document says nothing of it."""


async def test_calls_of_sections_4_5_and_9(project: Path, tmp_path: Path) -> None:
    async with session_in(project, state=tmp_path / "state", HOME=str(tmp_path)) as session:
        for source, value in CALLS:
            found = await value_of(session, source)
            assert value is None or (source, found) == (source, value)
        await ladder(session)
        await sync_tick(session, tmp_path / "Foo.cs")
        await records(session)


def rewrite(file: Path) -> None:
    """Change the first line, with a time stamp that no clock granularity hides."""
    stamp = file.stat().st_mtime_ns + 10**9
    file.write_text(FOO.replace("This is foo.cs.", "This is the new foo.cs.", 1))
    os.utime(file, ns=(stamp, stamp))


async def ladder(session: Session) -> None:
    """Section 5.2: raw excerpt, structured excerpt, summary of the region."""
    source = 'low = view("~/Foo.cs", pos="class Foo", tokens=400); [low.Render(lod=each).text for each in range(3)]'
    raw, structured, summed_up = literal_eval(await value_of(session, source) or "")
    assert "1502\tclass Foo {\n1503\t  void Bar() {}\n" in raw
    assert structured.startswith("1504 lines of csharp: This is foo.cs.")
    assert "1502\tclass Foo {" in structured, "lines near the position"
    assert "class Foo, lines 1502-1504 of 1504 lines of csharp" in summed_up


async def sync_tick(session: Session, file: Path) -> None:
    """Section 5.2: a Sync tick reports a difference, and updates `rendered`. Section 6.1: groups come after that."""
    await session.cell('foo_cs.SetPos("0:0").Run(freq="Sync")')
    await session.tick()
    before = len(session.events)
    rewrite(file)
    await session.tick()
    told = session.events[before:]
    assert any(isinstance(each, NodeChanged) and "+// This is the new foo.cs." in each.delta for each in told)
    kinds = [each.tick_kind for each in told if isinstance(each, TickApplied)]
    assert kinds == sorted(kinds, key=["async", "sync", "periodic", "group"].index)
    assert {"sync", "group"} <= {*kinds}
    assert "This is the new foo.cs." in (await value_of(session, "foo_cs.rendered.text") or "")
    difference = await value_of(session, "low.Refresh().SetLod(3).rendered.text")
    assert "+// This is the new foo.cs." in (difference or ""), "lod=3: diff-only view"


async def records(session: Session) -> None:
    """Section 3: the record of a statement and of its execution."""
    finished = await session.cell("# tag: demo\nimport sys\nprint('out'); print('err', file=sys.stderr); n = 1")
    recorded = events_of(session, StatementRecorded)[-1]
    assert recorded.statement_id == finished.statement_id
    assert recorded.index == events_of(session, StatementRecorded)[-2].index + 1
    assert (recorded.statement_kind, recorded.tag_names, len(recorded.fingerprint)) == ("python", ("demo",), 16)
    assert (finished.status, finished.stdout.text, finished.stderr.text) == ("ok", "out\n", "err\n")
    assert finished.started_at <= finished.ended_at
    assert finished.diff.added["n"] == TypeInfo(type_name="int", short_repr="1", size=finished.diff.added["n"].size)
    changed = await session.cell("n = 2; del sys")
    assert (changed.diff.changed["n"].after.short_repr, changed.diff.deleted) == ("2", ("sys",))
    failed = await session.cell("1 / 0")
    assert failed.exception is not None
    assert (failed.status, failed.exception.type, failed.exception.message) == (
        "error", "ZeroDivisionError", "division by zero",
    )  # fmt: skip
    assert {each.method for each in events_of(session, MethodCalled)} >= {"SetLod", "SetTokens", "SetPos", "Scroll"}
    assert all(each.before_digest and each.after_digest for each in events_of(session, MethodCalled))


# --- sections 3 and 6: the names of records --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (StatementRecorded, "statement_id index source fingerprint"),
        (
            ExecutionFinished,
            "execution_id statement_id started_at ended_at status stdout stderr exception artifacts time_ms",
        ),
        (NamespaceDiff, "added changed deleted"),
        (ChangeInfo, "before after"),
        (TypeInfo, "type_name short_repr size"),
        (MethodCalled, "obj_id obj_type method args kwargs before_digest after_digest"),
        (NodeChanged, "obj_id delta"),
        (TickApplied, "obj_id tick_kind delta"),
        (AsyncPayloadPrepared, "obj_id"),
        (AsyncPayloadApplied, "obj_id delta"),
        (GroupRecomputed, "delta"),
        (UpdatePayload, "payload_id obj_id prepared_at basis data cost payload_hash"),
        (PayloadBasis, "obj_digest_hash policy_hash deps_hash"),
        (PayloadCost, "time_ms bytes"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_records_have_the_published_fields(kind: type, fields: str) -> None:
    assert {*fields.split()} <= {*kind.__struct_fields__}


def test_enumerations_have_the_published_members() -> None:
    assert {*StatementKind.__args__} == {"python", "meta"}
    assert {*ExecutionStatus.__args__} >= {"ok", "error", "timeout", "cancelled"}
    assert {*PayloadKind.__args__} == {"diff", "render", "parse", "index", "other"}


def test_phases_of_a_tick_are_in_the_published_order() -> None:
    """Apply-ready async payloads, Sync ticks, Periodic ticks, group recompute ticks; a cap on payloads."""
    assert [name for name, _ in PHASES] == ["async", "sync", "periodic", "group"]
    assert MOST < 100


def test_nodes_have_the_published_methods() -> None:
    for name in ("GetDigest", "Render", "Pause", "Run", "Tick", "OnMemberChanged"):
        assert callable(getattr(NodeBase, name))
