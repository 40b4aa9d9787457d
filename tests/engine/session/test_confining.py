"""Which domain a session's worker is to be in."""

from __future__ import annotations

from typing import get_args

import pytest

from engine.core.domain import LAYERS, PARTS, Domain
from engine.log.events.session import Mode
from engine.log.rights import Rights
from engine.session.confinement import domain_of, rights_in

ROOTS = ("/work/project", "/more")
KEPT = ("/work/project/.git/config", "/more/.git/hooks")


def domain(mode: Mode, *, network: bool = False) -> Domain:
    return domain_of(mode, network=network, roots=ROOTS, scratch="/state/scratch/s", state="/state", protected=KEPT)


@pytest.mark.parametrize("mode", [mode for mode in get_args(Mode) if mode != "auto"])
def test_a_mode_that_asks_or_refuses_leaves_the_scratch_directory_alone(mode: Mode) -> None:
    assert domain(mode) == Domain(scratch="/state/scratch/s", hidden=("/state",))


def test_auto_adds_the_session_s_directories_but_not_what_git_would_run() -> None:
    found = domain("auto")
    assert found.writable == ROOTS
    assert found.read_only == KEPT
    assert rights_in(found, (*LAYERS, *PARTS)) == Rights(writable=ROOTS, lacks=())


def test_a_state_directory_is_not_covered_where_the_session_is_in_it() -> None:
    roots = ("/state/work",)
    found = domain_of("ask", network=False, roots=roots, scratch="/state/scratch/s", state="/state", protected=())
    assert found.hidden == ()


@pytest.mark.parametrize("mode", get_args(Mode))
def test_the_network_is_off_unless_it_is_allowed(mode: Mode) -> None:
    assert not domain(mode).network
    assert domain(mode, network=True).network
    assert rights_in(domain(mode, network=True), LAYERS).network


def test_statements_write_no_directory_with_a_part_of_this_program_that_is_open() -> None:
    found = domain_of("auto", network=False, roots=ROOTS, scratch="/s", state="/state", protected=KEPT, is_open=True)
    assert (found.writable, found.read_only) == ((), ())
