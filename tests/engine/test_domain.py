"""Which layers of a sandbox are enough for its promise."""

from __future__ import annotations

from itertools import combinations

from engine.domain import LAYERS, is_held


def test_a_domain_is_held_by_the_rights_on_paths_and_the_filter_of_calls_with_or_without_mounts() -> None:
    held = [each for count in range(len(LAYERS) + 1) for each in combinations(LAYERS, count) if is_held(each)]
    assert held == [("landlock", "seccomp"), ("landlock", "seccomp", "mounts")]
