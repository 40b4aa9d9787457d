"""Token counts: exact for every text, additive over pieces, and bisected by the ruler."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.tokens import Ruler, count, counter, cut, load, ranks
from engine.core.tokens.counter import LONGEST, Counter
from tests.support.examples import examples

_ENCODING = ranks.encoding()
_CHARACTERS = st.one_of(
    st.sampled_from("\n\n\n\r\t  /'aAsz09_;(){}\"-.\u00a0\u0085\u2028\u3000\x0b\x1c漢é😀\u0301ǅ"),
    st.characters(exclude_categories=("Cs",)),
)
_FRAGMENTS = st.sampled_from(
    [
        "\n",
        "\r\n",
        "\n/",
        "\n//",
        "\n  \n",
        "\n \t",
        ";\n",
        ");\n\n",
        "don't",
        "'S",
        "<|endoftext|>",
        "   ",
        "foo",
        "12",
    ]
)
_TEXTS = st.lists(st.one_of(_FRAGMENTS, st.text(_CHARACTERS, max_size=8)), max_size=40).map("".join)


def _whole(text: str) -> int:
    return len(_ENCODING.encode_ordinary(text))


@examples(2)
@given(_TEXTS)
def test_counts_of_pieces_add_up(text: str) -> None:
    pieces = list(cut(text))
    assert "".join(pieces) == text
    assert sum(map(_whole, pieces)) == _whole(text)


@examples(0.5)
@given(st.lists(_TEXTS, min_size=3, max_size=12))
def test_long_texts_count_as_a_whole_and_again_the_same(parts: list[str]) -> None:
    text = "\nx".join(parts) + "\nlonger than what is counted directly " * 20
    assert count(text) == _whole(text) == count(text)


@examples(0.2)
@given(st.text(st.sampled_from("ab Z9'.,/(){}\"="), min_size=50, max_size=200))
def test_overlong_line_is_cut_without_changing_its_count(seed: str) -> None:
    text = ("ab," + seed) * (2 * LONGEST // (len(seed) + 3) + 1)
    pieces = list(cut(text))
    assert len(pieces) > 1
    assert max(map(len, pieces)) <= LONGEST
    assert sum(map(_whole, pieces)) == _whole(text)


@pytest.mark.parametrize("lead", range(6))
def test_a_long_line_is_not_cut_before_a_contraction(lead: int) -> None:
    text = "x" * lead + "don't," * 30_000
    assert count(text) == _whole(text)


@pytest.mark.parametrize("size", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "unit", ["a", " ", "\t", "\n", " \n", "\u00a0", "/", "=-", "漢", "\r", "\n" + " " * 100, "1", "😀"]
)
def test_long_runs_are_encoded_once_in_bounded_pieces(unit: str, size: int) -> None:
    text = unit * (size // len(unit)) + "x"
    sizes: list[int] = []

    def encode(piece: str) -> list[int]:
        # Beyond this size the encoder's own cost, which grows faster than the piece, is felt; at 100,000 it may panic.
        assert len(piece) <= 65_536
        sizes.append(len(piece))
        return _ENCODING.encode_ordinary(piece)

    tokens = Counter(encode)(text)
    assert sum(sizes) <= len(text)
    assert len(text) / 128 <= tokens <= len(text) * 4


def test_the_documented_cut_adds_at_most_a_token_per_piece() -> None:
    text = "a" * (3 * LONGEST)
    assert 0 <= count(text) - _whole(text) <= 3


def test_special_tokens_in_a_text_count_as_ordinary_text() -> None:
    assert count("<|endoftext|>") == _whole("<|endoftext|>") > 1


def test_lone_surrogates_count_as_replacement_characters() -> None:
    assert count("a\ud800b") == count("a\ufffdb")
    assert count("a\ud800b\n" * 500) == count("a\ufffdb\n" * 500)


def test_loading_twice_gives_one_counter() -> None:
    load()
    first = counter()
    load()
    assert counter() is first


def _remembering() -> tuple[Counter, list[str]]:
    """A counter, and the pieces that it has encoded."""
    encoded: list[str] = []
    return Counter(lambda piece: encoded.append(piece) or _ENCODING.encode_ordinary(piece)), encoded


def test_what_was_counted_is_not_encoded_again() -> None:
    text = "".join(f"a line that is long enough {number}\n" for number in range(100))
    remembering, encoded = _remembering()
    assert remembering(text) == remembering(text) == _whole(text)
    assert len(encoded) == 100
    remembering(text + "more\n")
    assert encoded[100:] == ["more\n"]


@pytest.mark.parametrize(("words", "encoded_again"), [(200, False), (2_000, True)])
def test_medium_texts_are_cached_whole(words: int, encoded_again: bool) -> None:
    text = "word " * words  # one piece, too long to be remembered as such
    remembering, encoded = _remembering()
    assert remembering(text) == remembering(text) == _whole(text)
    assert (len(encoded) == 2) is encoded_again


def test_the_counter_forgets_texts_that_others_followed() -> None:
    remembering, encoded = _remembering()
    for number in range(2_000):
        remembering(f"{number} " + "x" * 1_000)
    remembering("0 " + "x" * 1_000)
    assert len(encoded) == 2_001


_COSTS = st.lists(st.integers(0, 9), max_size=400)


def _ruler(costs: list[int]) -> Ruler:
    return Ruler(len(costs), lambda index: "x" * costs[index], len)


@examples(1)
@given(_COSTS, st.data())
def test_sums_are_those_of_the_pieces(costs: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(costs)))
    end = data.draw(st.integers(0, len(costs)))
    assert _ruler(costs).between(start, end) == sum(costs[start:end])


@examples(1)
@given(_COSTS, st.data(), st.integers(0, 2000))
def test_down_reaches_as_far_as_the_budget_and_no_farther(costs: list[int], data: st.DataObject, budget: int) -> None:
    start = data.draw(st.integers(0, len(costs)))
    end = _ruler(costs).down(start, budget)
    assert sum(costs[start:end]) <= budget
    assert end == len(costs) or sum(costs[start : end + 1]) > budget


@examples(1)
@given(_COSTS, st.data(), st.integers(0, 2000))
def test_up_reaches_as_far_as_the_budget_and_no_farther(costs: list[int], data: st.DataObject, budget: int) -> None:
    end = data.draw(st.integers(0, len(costs)))
    start = _ruler(costs).up(end, budget)
    assert sum(costs[start:end]) <= budget
    assert start == 0 or sum(costs[start - 1 : end]) > budget


def test_ruler_counts_only_near_the_window_and_once() -> None:
    counted: list[str] = []

    def count(piece: str) -> int:
        counted.append(piece)
        return 1

    ruler = Ruler(100_000, str, count)
    assert (ruler.up(50_000, 100), ruler.down(50_000, 100)) == (49_900, 50_100)
    assert len(counted) < 400
    before = len(counted)
    assert (ruler.up(50_000, 90), ruler.down(50_000, 90), ruler.between(49_950, 50_050)) == (49_910, 50_090, 100)
    assert len(counted) == before
