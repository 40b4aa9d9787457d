"""Differences between the record of a statement and its re-run."""

from __future__ import annotations

import pytest

from engine.core.execution import (
    STATEMENT_CANCELLED,
    STATEMENT_TIMEOUT,
    Captured,
    ChangeInfo,
    Ending,
    ExceptionInfo,
    NamespaceDiff,
    TypeInfo,
)
from engine.log.comparison import differences

LONG = "Handles (name: type, document, mode, lod, tokens used/budget): " + "notes_md: view, " * 10


def finished(**fields: object) -> Ending:
    return Ending(**{"status": "ok", **fields})


def added(name: str, text: str, type_name: str = "str") -> NamespaceDiff:
    return NamespaceDiff(added={name: TypeInfo(type_name=type_name, short_repr=text)})


def phrase(before: Ending, after: Ending) -> str:
    (said,) = differences(before, after).phrases
    return said


@pytest.mark.parametrize("shared", ["", "short ", LONG, LONG * 50])
@pytest.mark.parametrize("rest", ["", " end", LONG])
def test_a_long_value_is_shown_where_it_differs(shared: str, rest: str) -> None:
    said = phrase(finished(value=f"{shared}then{rest}"), finished(value=f"{shared}now{rest}"))
    now, was = said.removeprefix("displayed ").split(" instead of ")
    assert ("now" in now, "then" in was) == (True, True)
    assert max(len(now), len(was)) <= 80
    assert (now.startswith("…"), was.startswith("…")) == (len(shared) > 80, len(shared) > 80)
    # Both begin at the same place, so that they can be compared.
    assert now.partition("now")[0] == was.partition("then")[0]


def test_a_long_value_of_several_lines_is_shown_as_one() -> None:
    said = phrase(finished(value=f"{LONG}\none\ntwo"), finished(value=f"{LONG}\none\nthree"))
    assert said.endswith("three instead of " + said.partition("displayed ")[2].partition("three")[0] + "two")
    assert "\n" not in said


def test_addresses_are_no_difference_to_begin_at() -> None:
    values = [f"<A object at 0x{number}> {LONG} {end}" for number, end in (("7f01", "then"), ("7f02", "now"))]
    said = phrase(*(finished(value=value) for value in values))
    assert ("now instead of" in said, said.endswith("then")) == (True, True)


@pytest.mark.parametrize(
    ("before", "after", "differ"),
    [
        (0x561234567890, 0x563219876540, False),
        (0x7F1234567890, 0x7E3219876548, False),
        (0x7F1234567890, 0x7E3219876541, True),
        (0x551234567890, 0x57DC1E78CC38, True),
        (94_633_718_000_001, 94_633_719_000_008, True),
    ],
    ids=["ids in the heap", "ids in mappings", "one is none", "no heap begins there", "a clock of a day and two hours"],
)
def test_ids_are_no_difference_and_clocks_are(before: int, after: int, differ: bool) -> None:
    said = differences(finished(value=str(before)), finished(value=str(after)))
    assert bool(said.phrases) == differ


def test_continued_value_is_shown_with_the_shorter_ones_end() -> None:
    said = phrase(finished(value=LONG), finished(value=f"{LONG}and more"))
    now, was = said.removeprefix("displayed ").split(" instead of ")
    assert now.endswith("and more")
    assert now.startswith(was)


def test_one_sided_value_is_shown_from_its_beginning() -> None:
    assert phrase(finished(), finished(value=LONG)) == f"displayed {LONG[:79]}… instead of nothing"
    assert phrase(finished(value="1"), finished()) == "displayed nothing instead of 1"


def test_long_printed_line_is_shown_where_it_differs() -> None:
    outputs = [Captured(text=f"same\n{LONG}{end}\n", total_bytes=1, digest=end) for end in ("then", "now")]
    said = phrase(*(finished(stdout=output) for output in outputs))
    assert "now' instead of '…" in said
    assert said.endswith("then' in line 2")
    assert "same" not in said


def test_long_value_is_shown_where_it_differs() -> None:
    said = phrase(finished(diff=added("x", f"'{LONG}then'")), finished(diff=added("x", f"'{LONG}now'")))
    assert said.startswith("left another value in x (…")
    assert ("now' instead of …" in said, said.endswith("then')")) == (True, True)


def test_a_content_that_no_text_shows_is_named_as_that() -> None:
    diffs = [
        NamespaceDiff(changed={"x": ChangeInfo(before=info, after=info, before_digest="0", after_digest=digest)})
        for info, digest in ((TypeInfo(type_name="list", short_repr="[1, …]"), digest) for digest in "ab")
    ]
    assert phrase(*(finished(diff=diff) for diff in diffs)) == "left another value in x (its content)"


def test_older_digests_are_not_compared_with_new_ones() -> None:
    info = TypeInfo(type_name="list", short_repr="[1, …]")
    diffs = [NamespaceDiff(added={"x": info}, digests={"x": "a" * length}) for length in (16, 32)]
    assert not differences(*(finished(diff=diff) for diff in diffs)).phrases


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("<view a.md:3 paused lod=0 tokens=9 0123abcd>", "<view a.md:3 paused lod=0 tokens=9 ffffffff>", False),
        ("<view a.md:3 paused lod=0 tokens=9 0123abcd>", "<view a.md:4 paused lod=0 tokens=9 0123abcd>", True),
        ("<view a.md:3 paused lod=0 tokens=9>", "<view a.md:3 paused lod=0 tokens=9 0123abcd>", False),
    ],
)
def test_a_handle_is_compared_by_its_place_and_policy(was: str, now: str, said: bool) -> None:
    diffs = [
        NamespaceDiff(added={"v": TypeInfo(type_name="ViewHandle", short_repr=text)}, digests={"v": letter * 32})
        for text, letter in ((was, "a"), (now, "b"))
    ]
    assert bool(differences(*(finished(diff=diff) for diff in diffs)).phrases) == said
    older = NamespaceDiff(added={"v": TypeInfo(type_name="ViewHandle", short_repr="<view a.md paused tokens=9>")})
    assert not differences(finished(diff=older), finished(diff=diffs[1])).phrases


def test_incomparable_name_is_not_reported() -> None:
    info = TypeInfo(type_name="list", short_repr="[1]")
    changed = NamespaceDiff(changed={"x": ChangeInfo(before=info, after=info, mutated=True)})
    unknown = NamespaceDiff(unknown={"x": "the value is too large to compare"})
    for pair in ((changed, unknown), (unknown, changed), (unknown, NamespaceDiff())):
        assert not differences(*(finished(diff=diff) for diff in pair)).phrases
    deep = NamespaceDiff(changed=changed.changed, deep=True)
    assert phrase(finished(diff=deep), finished()) == "did not change x"


def test_mutation_missed_by_an_earlier_version_is_no_difference() -> None:
    info = TypeInfo(type_name="list", short_repr="[1]")
    mutated = NamespaceDiff(changed={"x": ChangeInfo(before=info, after=info, mutated=True)})
    rebound = NamespaceDiff(changed={"x": ChangeInfo(before=info, after=info)})
    assert not differences(finished(), finished(diff=mutated)).phrases
    assert not differences(finished(diff=mutated), finished()).phrases
    assert phrase(finished(), finished(diff=rebound)) == "changed x too"
    assert phrase(finished(diff=NamespaceDiff(deep=True)), finished(diff=mutated)) == "changed x too"


def test_long_exception_message_is_shown_where_it_differs() -> None:
    errors = [ExceptionInfo(type="ValueError", message=f"{LONG * 3}{end}") for end in ("then", "now")]
    said = phrase(*(finished(status="error", exception=error) for error in errors))
    assert said.startswith("ended with error (ValueError: …")
    assert ("now) instead of error (ValueError: …" in said, said.endswith("then)")) == (True, True)
    assert phrase(finished(), finished(status="error", exception=errors[1])).startswith(
        f"ended with error (ValueError: {LONG[:100]}"
    )


@pytest.mark.parametrize(
    "there",
    [
        "<module 'pathlib' from '/usr/lib/python3.12/pathlib.py'>",
        "<module 'pathlib' (frozen)>",
        "<module 'pathlib' from '/home/else…",
    ],
)
def test_a_module_of_another_place_is_the_same_module(there: str) -> None:
    here = added("module", "<module 'pathlib' from '/usr/lib/python3.11/pathlib.py'>", "module")
    found = differences(finished(diff=here), finished(diff=added("module", there, "module")))
    assert (found.phrases, found.same) == ((), {"module"})


def test_another_module_is_another_value() -> None:
    here, there = (added("m", f"<module '{name}' from '/x/{name}.py'>", "module") for name in ("one", "two"))
    assert "left another value in m" in phrase(finished(diff=here), finished(diff=there))


def test_rebinding_to_equal_content_is_no_difference() -> None:
    info = TypeInfo(type_name="list", short_repr="[1]")
    same = ChangeInfo(before=info, after=info, before_digest="a" * 32, after_digest="a" * 32)
    rebound, untouched = NamespaceDiff(changed={"x": same}, deep=True), NamespaceDiff(deep=True)
    for pair in ((rebound, untouched), (untouched, rebound)):
        assert not differences(*(finished(diff=diff) for diff in pair)).divergences


@pytest.mark.parametrize("stopped", [("timeout", STATEMENT_TIMEOUT), ("cancelled", STATEMENT_CANCELLED)])
def test_stop_recorded_by_an_earlier_version_is_no_difference(stopped: tuple[str, str]) -> None:
    status, name = stopped
    older = finished(status=status, exception=ExceptionInfo(type="KeyboardInterrupt", message=""))
    newer = finished(status=status, exception=ExceptionInfo(type=name, message="the reason"))
    assert not differences(older, newer).phrases
    assert not differences(newer, older).phrases
    own = finished(status=status, exception=ExceptionInfo(type="KeyboardInterrupt", message="by the user"))
    assert differences(own, newer).phrases
