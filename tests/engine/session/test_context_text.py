"""What `/context` and `/views` say: where the tokens go, what each part is, and what to type to change it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.context.model import ModelSignal, Prompt, StatementAsked, TextDelta, TokensUsed
from engine.context.tail.prompt import MESSAGES
from engine.context.tail.sections import SECTIONS
from engine.files.tails import HandleRow
from engine.session.model_calls.context_text import (
    PARTS,
    SHOWN_HANDLES,
    Breakdown,
    NodeCost,
    breakdown_text,
    handle_change,
    section_changes,
    smaller_change,
    table,
    views_text,
)
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import answer_to, session_in

NOW = """\
The next model call would send 1,000 tokens, of at most 8,000 (12%), and your next prompt. The first 900 tokens (90%) \
are the same as in the last call, so a provider can take them from its cache.

```text
part          tokens          what it is        what changes it
instructions     800  ██████  how to work here  (fixed)
results          190  ██      what it returned  /compact
feed              10  ▏       what has changed  (until read)
```

Tokens by handle (a view of a file, or a group of views):

```text
handle  tokens     budget  shows      what changes it
readme     150  █     All  README.md  /run readme.SetTokens(75)
```

- `/compact` """
THEN = """\
Model call 4 was sent 1,000 tokens, of at most 8,000 (12%). The first 900 tokens (90%) are the same as in the call \
before, so a provider can take them from its cache. The provider counted 1,100 tokens, 950 of them from its cache, and \
30 of the reply.

```text
part          tokens          what it is
instructions     800  ██████  how to work here
results          190  ██      what it returned
feed              10  ▏       what has changed
```

Tokens by handle (a view of a file, or a group of views):

```text
handle  tokens     shows
readme     150  █  README.md
```"""
SECTIONS_SENT = {"instructions": 800, "results": 190, "feed": 10}


def test_breakdown_has_a_bar_and_a_command_for_each_part() -> None:
    row = handle("readme", 0, used_tokens=150)
    parts = Breakdown(
        sections=SECTIONS_SENT,
        size=8_000,
        shared=900,
        nodes=[NodeCost("readme", "README.md", 150, "All", smaller_change(row))],
        changes=section_changes(SECTIONS_SENT, [row]),
    )
    assert breakdown_text("The next model call would send", parts).startswith(NOW)


def test_sent_prompt_shows_no_commands() -> None:
    parts = Breakdown(
        sections=SECTIONS_SENT,
        size=8_000,
        shared=900,
        nodes=[NodeCost("readme", "README.md", 150)],
        counted=(1_100, 950, 30),
    )
    assert breakdown_text("Model call 4 was sent", parts) == THEN


@pytest.mark.parametrize(
    ("answered", "said"),
    [
        (True, "8 tokens, of at most 100 (8%).\n"),
        (False, "(8%). The model did not answer.\n"),
        (None, "(8%). It is unknown whether the model answered: the agent ended, or the call is still running.\n"),
    ],
)
def test_unanswered_call_says_so(answered: bool | None, said: str) -> None:
    text = breakdown_text("It was sent", Breakdown(sections={"instructions": 8}, size=100, answered=answered))
    assert said in text
    assert "provider" not in text
    assert "handle" not in text


def test_columns_fit_80_cells_whatever_the_title() -> None:
    rows = [
        handle("configuration", used_tokens=99_999, title="設定" * 60),
        handle("documents", 0, obj_type="group", used_tokens=99_999, title="src/" * 40),
        handle("readme", pinned=True),
    ]
    sections = dict.fromkeys(PARTS, 1_234_567)
    costs = [NodeCost(row.name, row.title, 12_345, "12,345", smaller_change(row)) for row in rows]
    parts = Breakdown(sections=sections, size=10**8, nodes=costs, changes=section_changes(sections, rows))
    for text in (breakdown_text("", parts), views_text(rows)):
        for block in re.findall(r"```text\n(.*?)```", text, re.DOTALL):
            assert max(len(line) + sum(char in "設定" for char in line) for line in block.splitlines()) <= 80
    assert "/run configuration.SetTokens(49000)\n" in breakdown_text("", parts)


def test_overlong_path_keeps_its_end() -> None:
    rows = [handle(f"a_name_of_20_chars_{n}", used_tokens=300, title=f"engine/files/file_{n}.py") for n in range(2)]
    costs = [NodeCost(row.name, row.title, 300, "300", smaller_change(row)) for row in rows]
    text = breakdown_text("", Breakdown(sections={}, size=1, nodes=costs, changes={}))
    assert re.search(r"…le_0\.py  /run a_name_of_20_chars_0\.SetTokens\(150\)\n.*…le_1\.py  /run", text)
    (line,) = [line for line in views_text([handle("a", title="x" * 80 + "/one.py")]).splitlines() if "…" in line]
    assert line.startswith("a       …xxx")
    assert "/one.py  no " in line


@pytest.mark.parametrize(
    ("node_count", "said"),
    [
        (3, "(a view of a file, or a group of views):"),
        (1_204, "(a view of a file, or a group of views), the 3 largest of 1,204:"),
        (None, "(a view of a file, or a group of views), the 3 largest:"),
    ],
)
def test_partial_list_of_handles_says_so(node_count: int | None, said: str) -> None:
    nodes = [NodeCost(name, "", 5) for name in "abc"]
    assert said in breakdown_text("", Breakdown(sections={}, size=1, nodes=nodes, node_count=node_count))


def test_compact_replaces_a_smaller_budget_that_cannot_help() -> None:
    row = handle("a", 390, used_tokens=380)
    assert handle_change(row, 0) == handle_change(row, 390) == "/run a.SetTokens(190)"
    assert handle_change(row, 800) == "/compact"
    assert handle_change(handle("a", 0, used_tokens=900), 900) == "/run a.SetTokens(450)"
    nameless = handle("view-3.1", 390, obj_id="view-3.1", used_tokens=380)
    assert (handle_change(nameless, 0), handle_change(nameless, 380)) == ("", "/compact")


def test_every_section_is_explained() -> None:
    sections = ("instructions", *MESSAGES, *(section.name for section in SECTIONS))
    assert set(sections) == set(PARTS)
    assert set(section_changes({}, [])) == set(PARTS)


def handle(name: str, tokens: int = 90, **fields: object) -> HandleRow:
    values: dict[str, object] = {
        "name": name, "obj_id": f"view-{name}", "obj_type": "view", "mode": "paused", "freq": "", "lod": 0,
        "tokens": tokens, "used_tokens": 90, "changed": False, "title": f"{name}.py", **fields,
    }  # fmt: skip
    return HandleRow(**values)  # pyright: ignore[reportArgumentType] - by name


def test_what_no_command_changes_is_said_in_brackets() -> None:
    held = handle("a", pinned=True, used_tokens=30)
    nameless = handle("b", obj_type="group", obj_id="b", children=("view-c",))
    changes = section_changes({"summary": 9}, [held, nameless, handle("c")])
    assert changes["summary"] == changes["handles"] == changes["groups"] == "(fixed)"
    assert changes["pins"] == "/run unpin(a)"
    assert section_changes({"summary": 9, "prompts": 1}, [])["summary"] == "/compact"
    assert [smaller_change(row) for row in (held, nameless, handle("c", used_tokens=641))] == [
        "",
        "",
        "/run c.SetTokens(320)",
    ]


def test_group_lists_its_members_below_it() -> None:
    rows = [
        handle("a", 0, lod=1),
        handle("b", mode="running", freq="Sync"),
        handle("inner", children=("view-b",), title="b", lod=3),
        handle("outer", children=("view-inner", "view-a"), title="inner | a", pinned=True, freq="Periodic 5s"),
        handle("alone", freq="Async", lod=2),
    ]
    assert views_text(rows).split("```")[1].splitlines() == [
        "text",
        "handle   shows      follows        lod        tokens",
        "outer    inner | a  every 5s       0 text     90 of 90   pinned",
        "└ inner  b          no             3 changes  90 of 90",
        "  └ b    b.py       each call      0 text     90 of 90",
        "└ a      a.py       no             1 outline  90 of All",
        "alone    alone.py   when prepared  2 summary  90 of 90",
    ]
    assert views_text([]) == 'There are no handles. `/run readme = view("README.md")` opens a view of a file.'


def test_a_group_of_paused_members_says_that_nothing_changes_it() -> None:
    (line,) = (
        line
        for line in views_text([handle("g", mode="running", freq="Sync", idle=True)]).splitlines()
        if "g.py" in line
    )
    assert "nothing, until a member runs" in line


def test_many_handles_list_the_newest_and_count_others() -> None:
    members = tuple(f"view-m{number}" for number in range(60))
    rows = [
        *(handle(f"a{number}") for number in range(300)),
        handle("g", children=members),
        *(handle(f"m{number}") for number in range(60)),
        *(handle(f"z{number}") for number in range(5)),
    ]
    lines = views_text(rows).splitlines()
    listed = lines[2 : lines.index("```", 2)]
    assert len(listed) == SHOWN_HANDLES
    assert [line.split()[0] for line in (listed[0], *listed[-5:])] == ["g", "z0", "z1", "z2", "z3", "z4"]
    assert f"... {366 - SHOWN_HANDLES} more handles; `/views all` lists them." in lines
    whole = views_text(rows, is_whole=True)
    assert "more handle" not in whole
    assert sum(line.split()[-2:] == ["of", "90"] for line in whole.splitlines()) == 366
    assert "more" not in views_text(rows[:SHOWN_HANDLES])


def test_groups_are_listed_however_deep_they_are_nested() -> None:
    rows = [handle(f"g{number}", children=(f"view-g{number + 1}",)) for number in range(3_000)]
    lines = views_text(rows, is_whole=True).splitlines()
    assert [number for number in range(3_000) if f"└ g{number} " in lines[number + 2]] == list(range(1, 3_000))


@pytest.mark.anyio
async def test_session_shows_the_context_of_now_and_of_a_call(tmp_path: Path) -> None:
    sources = ["readme = view(text='hello there', title='greeting', tokens=All)"]

    def answer(_: Prompt) -> Sequence[ModelSignal]:
        asked = [StatementAsked(sources.pop(0), typed=True)] if sources else [TextDelta("Done.")]
        return [*asked, TokensUsed(2_000, 10, 1_500)]

    async with session_in(tmp_path, model=AnsweringModel(answer)) as session:
        assert (await answer_to(session, "/context")).endswith("\n\nNo model has been called in this session.")
        assert (await answer_to(session, "/context 1")).startswith("No model has been called in this session. ")
        await answer_to(session, "/tick")
        await session.accept("look").end()
        now = await answer_to(session, "/context")
        past = [await answer_to(session, f"/context {number}") for number in (1, 2)]
        nowhere = [
            await answer_to(session, f"/context {number}") for number in ("0", "3", "-1", "1e3", "abc", "9" * 40)
        ]
        views = await answer_to(session, "/views")
    assert now.startswith("The next model call would send ")
    assert re.search(r"\nreadme +\d+ .* All  greeting", now)
    assert "\n\nThe last part, from `handles` on, changes with each call" in now
    assert "readme: view greeting, paused" in now
    assert now.endswith("`/context 2` shows the prompt of model call 2, the last one.")
    assert past[0].startswith("Model call 1, before the first statement, sent ")
    assert past[1].startswith("Model call 2, after statement 1, sent ")
    assert "The provider counted 2,000 tokens, 1,500 of them from its cache, and 10 of the reply." in past[1]
    assert f"`rewindow show {session.session_id} --projection 2`" in past[1]
    assert nowhere[1].startswith("There is no model call 3; the calls are numbered from 1 to 2. `/context` shows ")
    assert all(text.startswith("There is no model call ") and len(text) < 190 for text in nowhere)
    assert all(text.endswith("`/context tail` its last part.") for text in nowhere)
    assert " of All" in views


@pytest.mark.anyio
async def test_changes_on_disk_are_announced_and_still_reach_the_model(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("one\n")
    model = AnsweringModel(runs("a = view('a.py').Run()"))
    async with session_in(tmp_path, model=model) as session:
        await session.accept("look").end()
        assert "Not included yet" not in await answer_to(session, "/context")
        file.write_text("one\ntwo\n")
        before = len(session.events)
        for _ in range(2):
            text = await answer_to(session, "/context")
            assert "`/tick` adds them now:\n\n- `a`: 1 line changed in a.py (+1 -0), first at line 2\n\n" in text
        assert "Not included yet" not in await answer_to(session, "/context tail")
        assert not [event for event in session.events[before:] if event.kind in ("nodes_ticked", "node_changed")]
        await answer_to(session, "/tick")
        assert "Not included yet" not in await answer_to(session, "/context")
        await session.accept("and now?").end()
    assert "+two" in model.prompts[-1].tail
    assert "+two" not in model.prompts[-2].tail


COMMAND = re.compile(r"  (/\S.*)$", re.MULTILINE)


@pytest.mark.anyio
async def test_every_command_that_the_context_names_works(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.py").write_text("".join(f"def {name}{n}():\n    pass\n" for n in range(60)))
    sources = (
        "a = view('a.py', tokens=300)\nb = view('b.py', tokens=400).Run()",
        "code = group(a, 'c.py', tokens=500)\npin(b)\nlast = view('c.py', tokens=200)",
        "print('done')",
    )
    async with session_in(tmp_path, model=AnsweringModel(runs(*sources))) as session:
        await session.accept("look").end()
        await answer_to(session, "/run show(a)")
        (tmp_path / "b.py").write_text("def changed():\n    pass\n" * 90)
        (tmp_path / "c.py").write_text("def other():\n    pass\n" * 70)
        await answer_to(session, "/tick")
        text = await answer_to(session, "/context")
        commands = list(dict.fromkeys(COMMAND.findall(text)))
        assert {command.partition("(")[0] for command in commands} >= {
            "/compact",
            "/run del last",
            "/run code.SetTokens",
            "/run a.SetTokens",
            "/run b.SetTokens",
            "/run unpin",
        }
        for command in sorted(commands, key=lambda each: "del" in each):
            before = await session.projection()
            count = len(session.cells)
            await session.accept(command).end()
            if command.startswith("/run"):
                assert [cell.finished and cell.finished.status for cell in session.cells[count:]] == ["ok"], command
            after = await session.projection()
            assert after.handles != before.handles or after.message_tokens < before.message_tokens, command


@pytest.mark.parametrize("before", [40, 60, 70, 100])
def test_a_cut_cell_has_no_part_of_a_key(before: int) -> None:
    key = "sk-proj-Zq7RkW3xYb9TfLm2PcVn5JhGdS8aEuQo1iXtBy4wKvM"
    shown = table([(f"{'a ' * (before // 2)}{key}{' b' * (60 - before // 2)}", "1")], yielding=(0,))
    assert "\u2026" in shown
    assert [at for at in range(len(key) - 8) if key[at : at + 8] in shown and key not in shown] == []
