"""The table of the public kit: every requirement of the kit stands in it, beside requirements that exist."""

from __future__ import annotations

from conformance.suites.registry import SUITES
from docs.generator.public_kit import KIT, section

THEIRS = 56
"""Requirements of the kit for version 1."""


def test_every_requirement_of_the_kit_has_one_here() -> None:
    ours = {row.id for row in SUITES["acp"]().requirements}
    assert len(KIT) == THEIRS
    assert {theirs for theirs, found in KIT.items() if not found} == set()
    assert {f"ACP1-A-{one}" for found in KIT.values() for one in found} - ours == set()


def test_numbers_that_follow_each_other_are_one_entry() -> None:
    rows = {row.split(" | ")[0]: row for row in section() if row.startswith("| ACP-")}
    assert len(rows) == THEIRS
    assert "ACP1-A-UPDATE-001 to 016" in rows["| ACP-SCHEMA-001"]
    assert rows["| ACP-JSONRPC-004"].endswith("| ACP1-A-RPC-011, ACP1-A-RPC-013 |")
