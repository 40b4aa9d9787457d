"""A user's directory for each test, with three sessions in it where that is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.archives import kept
from tests.support.commands import Home
from tests.support.stores import A, B, message, row


@pytest.fixture
def empty(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def home(empty: Home) -> Home:
    """Sessions `ses_a` (of /work, with contents), `ses_b` (of the home, with a title), `other` (updated in 1970)."""
    store = empty.store()
    store.add(
        replace(row(B, str(empty.path)), title="red [bold]title\x1b[0m", created_at=4e9, updated_at=4e9),
        [message(0, "é")],
    )
    store.add(replace(row("other"), created_at=1.0, updated_at=1.0), [message(seq) for seq in range(3)])
    kept(store, A, [b"content" * 10_000])
    store.close()
    return empty
