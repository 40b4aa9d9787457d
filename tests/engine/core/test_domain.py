"""Which layers of a sandbox are enough for its promise."""

from __future__ import annotations

from itertools import combinations

from engine.core.domain import LATE_SOCKETS, LAYERS, PARTS, Domain, abilities, is_held, lacking, must_stand_still


def test_domain_needs_landlock_and_seccomp_but_not_mounts() -> None:
    held = [each for count in range(len(LAYERS) + 1) for each in combinations(LAYERS, count) if is_held(each)]
    assert held == [("landlock", "seccomp"), ("landlock", "seccomp", "mounts")]


def test_what_is_hidden_in_what_is_writable_takes_mounts() -> None:
    home = Domain(scratch="/home/u/.state/scratch/s", writable=("/home/u",), hidden=("/home/u/.state",))
    assert lacking(("landlock", "seccomp"), home) == ("mounts",)
    assert lacking(("seccomp",), home) == ("landlock", "mounts")
    assert is_held(LAYERS, home)
    elsewhere = Domain(scratch="/home/u/.state/scratch/s", writable=("/home/u/work",), hidden=("/home/u/.state",))
    assert is_held(("landlock", "seccomp"), elsewhere)


def test_mounts_leave_later_sockets_alone() -> None:
    assert abilities(("devices", "sockets"), bare=True) == [PARTS["devices"], PARTS["sockets"]]
    assert abilities(("devices", "sockets"), bare=False) == [PARTS["devices"], LATE_SOCKETS]


def test_processes_stand_still_if_they_could_write_a_file_before_it_is_protected() -> None:
    asking, auto = Domain(scratch="/s"), Domain(scratch="/s", writable=("/work",))
    assert must_stand_still(LAYERS, asking)
    assert must_stand_still(("seatbelt", *PARTS), auto)
    assert not must_stand_still(("seatbelt", *PARTS), asking)
    assert not must_stand_still(("seatbelt", *PARTS), None)
    assert not must_stand_still(("landlock", "seccomp"), auto)
