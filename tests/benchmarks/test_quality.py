"""The measures of `quality`: each on two cases with other answers, and all of them on one short session."""

from __future__ import annotations

import pytest

from benchmarks.bench_quality import contained, doubled, read, shared, stale, transcript, unused, waste
from benchmarks.quality_sessions import Prompt, Step, play

FILE = "import os\n\n\ndef first(value):\n    return value\n"
SHOWN = "[a.py]\n1\timport os\n4\tdef first(value):\n5\t    return value\n"


def prompt(*messages: str, text: str = FILE, source: str = "", plain: tuple[str, ...] = ()) -> Prompt:
    return Prompt(("instructions", *messages), {"a.py": text}, Step(source, plain), 0)


def test_lines_shown_twice_are_doubled() -> None:
    assert doubled(read(prompt(SHOWN))) == []
    assert [line.number for line in doubled(read(prompt(SHOWN, "[a.py]\n4\tdef first(value):")))] == [4]
    assert [line.number for line in doubled(read(prompt(SHOWN, "[a.py]\n5\tdef first(value):")))] == [5]
    assert doubled(read(prompt(SHOWN, "[a.py]\n44\tdef first(value):"))) == []


def test_lines_that_differ_from_the_file_are_stale_until_a_report() -> None:
    changed = FILE.replace("first", "second")
    now = prompt(SHOWN, text=changed)
    assert stale(read(prompt(SHOWN)), {"a.py": FILE}) == ([], [])
    silent, told = stale(read(now), now.files)
    assert ([line.number for line in silent], told) == ([4], [])
    for report in (
        "wrote a.py: +1 -1 at line 4",
        "v: 1 line changed in a.py (+1 -1), first at line 4",
        "v: view a.py, running Sync, lod 0, 9/2000, changed",
        "[a.py]\n4\tdef second(value):",
    ):
        silent, told = stale(read(prompt(SHOWN, report, text=changed)), now.files)
        assert (silent, [line.number for line in told]) == ([], [4])
    silent, _ = stale(read(prompt("wrote a.py: +1 -1 at line 4", SHOWN, text=changed)), now.files)
    assert [line.number for line in silent] == [4]


def test_outlines_are_stale_if_the_name_is_gone() -> None:
    outline = prompt("[a.py]\n5 lines of python\n4-5\tdef first(value)")
    assert stale(read(outline), {"a.py": FILE}) == ([], [])
    assert len(stale(read(outline), {"a.py": FILE.replace("first", "second")})[0]) == 1


def test_feed_has_the_new_lines() -> None:
    feed = "v: 1 line changed in a.py (+1 -1), first at line 4\n@@ -4 +4,2 @@\n-def old(value):\n+def first(value):\n"
    assert [(line.number, line.kind) for line in read(prompt(feed)).lines] == [(4, "feed")]


def test_lines_with_a_name_of_a_later_step_are_used() -> None:
    lines = read(prompt(SHOWN)).lines
    assert [line.number for line in unused(lines, [Step("grep('first')")])] == [1, 5]
    assert len(unused(lines, [Step("tick()")])) == 3


def test_contained_names_and_lines_are_shares() -> None:
    assert contained(SHOWN, {"first", "second"}, "    return value\n    gone") == (0.5, 0.5)
    assert contained(SHOWN, {"first"}, "    return value") == (1, 1)


def test_shared_tokens_end_at_the_first_difference() -> None:
    size, reused = shared([prompt("one"), prompt("one", "two"), prompt("other")])
    assert 0 < reused < size
    assert shared([prompt("one"), prompt("one")])[1] * 2 == shared([prompt("one"), prompt("one")])[0]


def test_transcript_appends_whole_outputs() -> None:
    made = transcript([prompt(plain=("view a.py",), source="view('a.py')"), prompt(source="tick()"), prompt()])
    assert [len(each) for each in made] == [2, 4]
    assert made[-1][-1].endswith("5:     return value")


def test_transcript_is_condensed_at_its_limit() -> None:
    whole = "\n".join(f"line {number} of a long file" for number in range(2_000))
    prompts = [prompt(text=whole, plain=("view a.py",), source="view('a.py')")] * 14
    lengths = [len(each) for each in transcript(prompts)]
    assert max(lengths) > lengths[-1]


@pytest.mark.slow
def test_a_session_is_measured() -> None:
    view = "view('anyio/lowlevel.py', tokens=300)"
    read_once = waste(play("anyio", 0, 1, only=[Step(view)]))
    twice = [Step(view), Step("show(_)"), Step("edit('anyio/lowlevel.py', 'import enum', 'import enum  # an enum')")]
    read_twice = waste(play("anyio", 0, 1, only=[Step(f"v = {view}"), Step("show(v)"), *twice[2:]]))
    assert read_once.doubled == 0 < read_twice.doubled < read_twice.shown
    assert read_once.marked == read_twice.stale == 0 < read_twice.marked
    assert read_twice.unused / read_twice.entered < read_once.unused / read_once.entered == 1
