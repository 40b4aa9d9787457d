"""Which file a link means, which lines of it, and why it may be none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.links import Lines, Target, target_of


@pytest.mark.parametrize(
    ("uri", "path", "lines"),
    [
        ("file:///w/a%20b.py", "/w/a b.py", None),
        ("file://localhost/w/a.py", "/w/a.py", None),
        ("file:/w/a.py", "/w/a.py", None),
        ("FILE:///w/a.py", "/w/a.py", None),
        ("/w/a.py", "/w/a.py", None),
        ("src/a.py", "src/a.py", None),
        ("../a%20b.py", "../a%20b.py", None),
        ("file:///w/caf%E9", "/w/caf\udce9", None),
        ("file:///w/a.py#L4000:4003", "/w/a.py", Lines(4000, 4003)),
        ("file:///w/a.py#L4000-4003", "/w/a.py", Lines(4000, 4003)),
        ("file:///w/a.py#L4000-L4003", "/w/a.py", Lines(4000, 4003)),
        ("file:///w/a.py?symbol=f#L7", "/w/a.py", Lines(7, 7)),
        ("src/a.py#L9:2", "src/a.py", Lines(2, 9)),
        ("src/a.py#L0", "src/a.py", Lines(1, 1)),
        ("/w/C#", "/w/C#", None),
        ("/w/a.py#Lines", "/w/a.py#Lines", None),
        ("file:///w/a.py#L" + "9" * 40, "/w/a.py", None),
    ],
)
def test_which_links_are_files_here(uri: str, path: str, lines: Lines | None) -> None:
    assert target_of(uri) == Target(path, lines)


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("https://example.org/w", "web pages are not fetched"),
        ("mem://x", "can be opened, not mem:"),
        ("file://elsewhere/w/a.py", "the file is on another host"),
        ("file://[x/a", "the link is malformed"),
        ("", "names no file"),
        ("file:///a%00b", "NUL"),
    ],
)
def test_a_link_that_is_no_file_has_a_reason(uri: str, reason: str) -> None:
    target = target_of(uri)
    assert target.path is None
    assert reason in target.reason


@given(st.text(max_size=40))
def test_any_text_leads_to_a_path_or_has_a_reason(uri: str) -> None:
    for text in (uri, "file://" + uri, uri + "#L1:2"):
        target = target_of(text)
        assert (target.path is None) == bool(target.reason)
