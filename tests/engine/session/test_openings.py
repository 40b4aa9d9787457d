"""Attachments become statements that open views, under names that a person would have chosen."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.log.events.conversation import Attachment
from engine.session.serving import MOST_OPENED, not_opened, openings


def link(uri: str, name: str) -> Attachment:
    return Attachment(uri=uri, name=name)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("turn.py", "turn_py"),
        ("My Notes (1).md", "my_notes_1_md"),
        ("2024.txt", "file_2024_txt"),
        ("print", "file_print"),
        ("view", "file_view"),
    ],
)
def test_a_file_is_opened_under_its_name(name: str, variable: str) -> None:
    assert openings([link("file:///w/x", name)], "/w") == [f"{variable} = view('/w/x')"]


def test_view_is_opened_under_a_name_not_rebound() -> None:
    attachments = [link("file:///w/x", "x")]
    assert openings(attachments, "/w", rebound={"ls"}) == ["x = view('/w/x')"]
    assert openings(attachments, "/w", rebound={"view"}) == ["x = __rewindow__.view('/w/x')"]


def test_two_files_of_one_name_get_two_variables() -> None:
    attachments = [link("file:///a/x.py", "x.py"), link("file:///b/x.py", "x.py")]
    assert openings(attachments, "/w") == ["x_py = view('/a/x.py')", "x_py_2 = view('/b/x.py')"]


def test_embedded_text_is_viewed_and_remote_link_is_not_opened() -> None:
    scratch = Attachment(uri="mem://scratch", name="scratch", text="it's\n")
    assert openings([scratch, link("https://example.org/x", "x")], "/w") == [
        "scratch = view(text=\"it's\\n\", title='scratch')"
    ]


@pytest.mark.parametrize(
    ("uri", "text", "arguments"),
    [
        ("file:///w/a.py", "new = 1\n", "'/w/a.py', text='new = 1\\n'"),
        ("../a.py#L7", None, "'/a.py', pos='7'"),
        ("file:///w/a.py#L4000:4003", None, "'/w/a.py', pos='4000'"),
        ("file:///w/a.py#L2-3", "1\n2\n3", "'/w/a.py', pos='2', text='1\\n2\\n3'"),
        ("file:///w/sub/a.py#L4000-4001", "x\ny", "'/w/sub/a.py', pos='4000', text='x\\ny', first_line=4000"),
        ("file:///w/a.py#L9", "x", "'/w/a.py', pos='9', text='x', first_line=9"),
    ],
)
def test_embedded_text_belongs_to_its_file_and_lines_are_positions(uri: str, text: str | None, arguments: str) -> None:
    attachment = Attachment(uri=uri, name="a.py", text=text)
    assert openings([attachment], "/w") == [f"a_py = view({arguments})"]


def test_repeated_attachment_is_opened_once_with_its_text() -> None:
    saved = link("file:///w/a.py", "a.py")
    unsaved = Attachment(uri="file:///w/a.py", name="a.py", text="new")
    assert openings([saved, unsaved, saved, unsaved], "/w") == ["a_py = view('/w/a.py', text='new')"]


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=5))
def test_whatever_it_is_called_the_statement_is_one_assignment(pairs: list[tuple[str, str]]) -> None:
    sources = openings(
        [Attachment(uri=f"mem://{number}", name=name, text=text) for number, (name, text) in enumerate(pairs)], "/w"
    )
    statements = [statement for source in sources for statement in ast.parse(source).body]
    names = [target.id for statement in statements if isinstance(statement, ast.Assign) for target in statement.targets]
    assert len(set(names)) == len(pairs)


@pytest.mark.slow
def test_prompt_opens_a_bounded_number_and_counts_the_rest() -> None:
    many = [link(f"file:///w/{number}/x.py", "x.py") for number in range(20_000)]
    web = link("https://example.org/x", "x")
    assert len(openings([web, *many], "/w")) == MOST_OPENED
    assert not_opened([web, *many, web]) == [
        "https://example.org/x was not opened: linked web pages are not fetched; paste the text, or save the page as a"
        " file.",
        "19,800 more attachments were not opened; `view(path)` opens one.",
    ]
    assert not_opened(many[:MOST_OPENED]) == []
    webs = [link(f"https://example.org/{number}/{'x' * 10_000}", "x") for number in range(1_000)]
    said = not_opened(webs)
    assert (len(said), said[-1]) == (21, "980 more links were not opened.")
    assert sum(map(len, said)) < 8_000
