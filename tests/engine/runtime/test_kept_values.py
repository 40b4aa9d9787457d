"""Which kept values stand for what a statement left: never a name without those that share objects with it."""

from __future__ import annotations

from msgspec.structs import replace

from engine.core.ids import BlobDigest, ExecutionId
from engine.log.past import PastExecution, PastValues
from engine.log.statements import RunRequest
from engine.runtime.rebuild_inputs import EARLIER, NOT_KEPT, KeptValues


def group(content: str, *names: str) -> PastValues:
    return PastValues(names=names, content=BlobDigest(content))


def step(*kept: PastValues, bound: str = "", unbound: str = "", unkept: dict[str, str] | None = None) -> PastExecution:
    return PastExecution(
        request=RunRequest(execution_id=ExecutionId("e"), label="", source=""),
        status="ok",
        bound=tuple(bound),
        unbound=tuple(unbound),
        kept=kept,
        unkept=unkept or {},
    )


def after(*steps: PastExecution) -> KeptValues:
    values = KeptValues()
    for each in steps:
        values.take(each)
    return values


def test_the_newest_copy_of_a_name_counts() -> None:
    first, second = group("1", "a"), group("2", "a")
    assert after(step(first, bound="a"), step(second, bound="a")).wanted("a").groups == {second: ("a",)}


def test_a_name_comes_with_those_of_which_the_newest_copy_is_in_the_same_group() -> None:
    first, second = group("1", "a", "b", "c"), group("2", "c")
    found = after(step(first, bound="abc"), step(second, bound="c")).wanted("a")
    assert found.groups == {first: ("a", "b")}


def test_a_name_that_was_deleted_since_does_not_come_with_the_others() -> None:
    first = group("1", "a", "b", "c")
    values = after(step(first, bound="abc"), step(unbound="b"))
    assert values.wanted("a").groups == {first: ("a", "c")}
    assert values.wanted("ab").delete == ("b",)
    values.take(step(bound="b"))
    assert values.wanted("a").groups == {first: ("a", "c")}, "what it is now is no longer the copy"


def test_a_name_that_was_bound_and_not_kept_has_no_copy_even_where_an_older_one_is_there() -> None:
    values = after(step(group("1", "a"), bound="a"), step(bound="a"))
    assert values.wanted("a").groups == {}
    assert values.wanted("a").without == {"a": NOT_KEPT}


def test_a_log_of_an_earlier_version_is_named_as_the_reason() -> None:
    assert after(replace(step(bound="a"), revisions=None)).wanted("a").without == {"a": EARLIER}


def test_the_reason_why_there_is_no_copy_is_that_of_the_latest_step() -> None:
    values = after(step(bound="a", unkept={"a": "too large"}), step(unkept={"a": "it hangs"}))
    assert values.wanted("a").without == {"a": "it hangs"}


def test_a_name_of_which_there_is_no_copy_any_more_is_not_set_from_the_one_before() -> None:
    values = after(step(group("1", "a", "b"), bound="ab"), step(unkept={"a": "too large"}))
    assert values.wanted("ab").groups == {group("1", "a", "b"): ("b",)}
    assert values.wanted("ab").without == {"a": "too large"}


def test_what_the_record_does_not_have_is_deleted() -> None:
    values = after(step(group("1", "a"), bound="a"), step(unbound="a"))
    assert values.wanted("az").delete == ("a", "z")


def test_what_is_known_to_be_as_it_was_is_set_only_with_others() -> None:
    values = after(step(group("1", "a", "b"), bound="abc"))
    assert values.wanted("ac", found="ac").groups == {}
    assert values.wanted("ac", found="ac").without == {}
    assert values.wanted("ab", found="a").groups == {group("1", "a", "b"): ("a", "b")}
