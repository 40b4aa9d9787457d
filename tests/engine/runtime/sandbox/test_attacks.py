"""Every attack fails where a layer that holds it is in force, and gets out where none is."""

from __future__ import annotations

import os
from itertools import combinations
from typing import Final

import pytest

from engine.core.domain import LAYERS, PARTS, Layer
from engine.runtime.sandbox import landlock
from tests.support.arena import ORDINARY_USER, attacking
from tests.support.attacks import ATTACKS, KINDS, Attack

USERS: Final = (0, ORDINARY_USER) if os.geteuid() == 0 else (os.geteuid(),)
WITHOUT: Final[list[tuple[Layer, ...]]] = [
    *(each for number in range(len(LAYERS) + 1) for each in combinations(LAYERS, number)),
    tuple(PARTS),
]


def attacks_of(user: int) -> list[Attack]:
    kind = "user" if user else "root"
    return [attack for attack in ATTACKS if attack.user in (None, kind)]


def is_held(attack: Attack, user: int, layers: tuple[Layer, ...]) -> bool:
    kind = KINDS[attack.kind]
    holders = {*kind.held_by, *(kind.as_user if user else kind.as_root)}
    later = {part for part, since in landlock.SINCE.items() if since == kind.since}
    if landlock.version() < kind.since or not later <= {*layers}:
        holders.discard("landlock")
    return bool(holders & {*layers, "privileges"})


def named(without: tuple[Layer, ...]) -> str:
    return "without " + "-".join(without) if without else "all layers"


def test_attacks_are_many_and_have_own_names() -> None:
    assert len(ATTACKS) >= 120
    assert len({(attack.kind, attack.name) for attack in ATTACKS}) == len(ATTACKS)
    assert {attack.kind for attack in ATTACKS} == set(KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("user", USERS)
def test_every_attack_gets_out_where_there_is_no_sandbox(user: int) -> None:
    with attacking(user, None) as attacker:
        failed = {
            attack.name: why for attack in attacks_of(user) if (why := attacker.run(attack)) and not attack.optional
        }
    assert failed == {}


@pytest.mark.slow
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("without", WITHOUT, ids=named)
def test_attack_fails_where_a_layer_stops_it(user: int, without: tuple[Layer, ...]) -> None:
    with attacking(user, without) as attacker:
        assert [layer for layer in LAYERS if layer in attacker.layers] == [
            each for each in LAYERS if each not in without
        ]
        assert not {*attacker.layers} & {*without}
        surprises: dict[str, str | None] = {}
        for attack in attacks_of(user):
            why, held = attacker.run(attack), is_held(attack, user, attacker.layers)
            if (why is None) == held and not (attack.optional and not held):
                surprises[f"{attack.kind}: {attack.name}"] = why
    assert surprises == {}
