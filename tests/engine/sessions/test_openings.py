"""Attachments become statements that open views, under names that a person would have chosen."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events.conversation import Attachment
from engine.sessions.openings import local_path, openings


def link(uri: str, name: str) -> Attachment:
    return Attachment(uri=uri, name=name)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("turn.py", "turn_py"),
        ("My Notes (1).md", "my_notes_1_md"),
        ("2024.txt", "file_2024_txt"),
        ("class", "file_class"),
        ("print", "file_print"),
        ("view", "file_view"),
        ("???", "attached"),
    ],
)
def test_a_file_is_opened_under_its_name(name: str, variable: str) -> None:
    assert openings([link("file:///w/x", name)]) == [f"{variable} = view('/w/x')"]


def test_two_files_of_one_name_get_two_variables() -> None:
    attachments = [link("file:///a/x.py", "x.py"), link("file:///b/x.py", "x.py")]
    assert openings(attachments) == ["x_py = view('/a/x.py')", "x_py_2 = view('/b/x.py')"]


def test_embedded_text_without_a_file_is_viewed_as_text_and_a_remote_link_is_not_opened() -> None:
    scratch = Attachment(uri="mem://scratch", name="scratch", text="it's\n")
    assert openings([scratch, link("https://example.org/x", "x")]) == [
        "scratch = view(text=\"it's\\n\", title='scratch')"
    ]


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///w/a%20b.py", "/w/a b.py"),
        ("file://localhost/w/a.py", "/w/a.py"),
        ("/w/a.py", "/w/a.py"),
        ("file://elsewhere/w/a.py", None),
        ("https://example.org/w", None),
        ("mem://x", None),
        ("http://[x", None),
    ],
)
def test_which_uris_are_files_here(uri: str, path: str | None) -> None:
    assert local_path(uri) == path


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=5))
def test_whatever_it_is_called_the_statement_is_one_assignment(pairs: list[tuple[str, str]]) -> None:
    sources = openings(
        [Attachment(uri=f"mem://{number}", name=name, text=text) for number, (name, text) in enumerate(pairs)]
    )
    statements = [statement for source in sources for statement in ast.parse(source).body]
    names = [target.id for statement in statements if isinstance(statement, ast.Assign) for target in statement.targets]
    assert len(set(names)) == len(pairs)
