"""The page of what this agent does of ACP: no name is overlooked, and each one that is not served has its reason."""

from __future__ import annotations

import hashlib
from itertools import chain

import pytest

from docs.generator.acp import (
    EDITIONS,
    SCHEMAS,
    SUBJECTS,
    VERSIONS,
    WHY,
    Subject,
    Version,
    known_names,
    rows,
    served_names,
)

EACH = pytest.mark.parametrize("subject", SUBJECTS)


@EACH
def test_each_name_of_the_schemas_is_served_or_has_a_reason(subject: Subject) -> None:
    found = rows(subject)
    assert len(found) >= 3
    assert [row.name for row in found if not all(row.served.values()) and not row.why] == []
    assert all(any(row.served.get(version) for row in found) for version in VERSIONS)


def test_reasons_are_only_given_for_names_that_are_not_served() -> None:
    missing = {row.name for subject in SUBJECTS for row in rows(subject) if not all(row.served.values())}
    assert set(WHY) == missing


@EACH
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_served_is_in_a_schema(subject: Subject, version: Version) -> None:
    own = {"document/didOpen", "document/didChange", "document/didSave", "document/didClose", "document/didFocus"}
    parents = {name.rpartition(".")[0] for name in known_names(subject)}
    parents |= {name.partition(".")[0] for name in known_names(subject)}
    assert served_names(subject, version) - set(known_names(subject)) - parents <= own


def test_names_that_only_one_edition_has_are_found() -> None:
    found = {(row.name, row.edition) for row in chain.from_iterable(map(rows, SUBJECTS))}
    assert {("session/prompt", "1"), ("session/fork", "1 unstable"), ("auth/login", "2 draft")} <= found
    assert {("fs.readTextFile", "1"), ("state_update", "2 draft"), ("sessionCapabilities.title", "1 unstable")} <= found


@pytest.mark.parametrize("file", EDITIONS.values())
def test_each_schema_is_the_published_one(file: str) -> None:
    digest = hashlib.sha256((SCHEMAS / file).read_bytes()).hexdigest()
    assert f"| `{file}` | `{digest}` |" in (SCHEMAS / "SOURCE.md").read_text()
