"""The functions that statements find in their namespace: real ones, with a signature and help."""

from __future__ import annotations

import inspect
import pydoc
from pathlib import Path
from typing import Any

import pytest

from engine.core.toolbox import INJECTED, ORIGINALS, TOOLS, original
from engine.runtime.worker.names import InjectedNames
from tests.support.boards import Desk

Asked = list[tuple[str, dict[str, object]]]


class Names:
    """The injected names over a host that notes what it is asked and answers with the number of questions."""

    def __init__(self, root: Path) -> None:
        self.asked: Asked = []
        self.desk = Desk(root)
        self.namespace: dict[str, Any] = {}
        self.injected = InjectedNames(self.desk.board, self._answer, open, self.namespace)

    def _answer(self, operation: str, arguments: dict[str, object], basis: str | None = None) -> object:
        self.asked.append((operation, arguments))
        return len(self.asked)


@pytest.fixture
def names(tmp_path: Path) -> Names:
    return Names(tmp_path)


def test_the_namespace_begins_with_exactly_the_names_of_the_toolbox(names: Names) -> None:
    assert names.namespace.keys() == INJECTED


def test_a_call_asks_the_host_with_every_argument_by_name(names: Names) -> None:
    read = names.namespace["read"]
    assert read("a", 2) == 1
    assert read(end_line=3, path="b") == 2
    assert names.asked == [
        ("read", {"path": "a", "start_line": 2, "end_line": None}),
        ("read", {"path": "b", "start_line": None, "end_line": 3}),
    ]


def test_a_path_is_sent_as_text(names: Names) -> None:
    names.namespace["read"](Path("a") / "b")
    names.namespace["ls"](Path("src"))
    assert [arguments["path"] for _, arguments in names.asked] == ["a/b", "src"]


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), (("a", 1, 2, 3), {}), (("a",), {"paths": "b"})])
def test_wrong_arguments_are_refused_by_name(names: Names, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=r"^read\(\): "):
        names.namespace["read"](*args, **kwargs)
    assert names.asked == []


def test_help_shows_the_signature_and_what_the_row_says(names: Names) -> None:
    read = names.namespace["read"]
    assert str(inspect.signature(read)) == "(path: str, start_line: int | None = None, end_line: int | None = None)"
    shown = pydoc.plain(pydoc.render_doc(read))
    assert "read(path: str, start_line: int | None = None, end_line: int | None = None)" in shown
    assert TOOLS["read"].doc in shown


def test_ls_without_a_path_lists_the_handles_and_asks_nobody(names: Names, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    assert repr(names.namespace["ls"]()).startswith("no handles")
    handle = names.namespace["view"]("a.txt")
    assert "a.txt" in repr(names.namespace["ls"]())
    assert handle.title == "a.txt"
    assert names.asked == []
    assert names.namespace["ls"](".") == 1


def test_a_rebound_or_deleted_name_is_told_once_and_restored(names: Names) -> None:
    read = names.namespace["read"]
    names.namespace["read"] = 5
    del names.namespace["ls"]
    assert names.injected.newly_rebound() == ("ls", "read")
    assert names.injected.newly_rebound() == ()
    names.namespace["restore_names"]()
    assert names.namespace["read"] is read
    assert names.namespace.keys() == INJECTED
    assert names.injected.newly_rebound() == ()


def test_original_names_are_there_for_every_statement(names: Names) -> None:
    view = names.namespace["view"]
    for _ in range(2):
        names.namespace["view"] = names.namespace[ORIGINALS] = 5
        names.injected.begin()
        assert names.namespace["view"] == 5
        assert eval(original("view"), names.namespace) is view
        with pytest.raises(AttributeError, match="read-only"):
            exec(f"{original('view')} = 5", names.namespace)
    assert {name for name in dir(names.namespace[ORIGINALS]) if not name.startswith("__")} == INJECTED


class Host(Names):
    """Answers a change with a refusal, and notes the basis."""

    def _answer(self, operation: str, arguments: dict[str, object], basis: str | None = None) -> object:
        self.bases = [*getattr(self, "bases", []), basis]
        raise OSError(f"{arguments['path']} has changed since it was last viewed; look at it again")


def test_change_carries_shown_revision_and_refusal_its_difference(tmp_path: Path) -> None:
    host = Host(tmp_path)
    (tmp_path / "link").symlink_to("a.txt")
    host.desk.write("a.txt", "one\ntwo\n")
    view = host.namespace["view"]
    handle = view("a.txt", freq="Sync")
    basis = handle.GetDigest()["revision"]
    host.desk.write("a.txt", "one\n2\n")
    for path in ("a.txt", "link", tmp_path / "a.txt"):
        with pytest.raises(OSError, match=r"look at it again\. 1 line changed in .*\n.*\n one\n-two\n\+2"):
            host.namespace["edit"](path, "one", "1")
    assert host.bases == [basis] * 3


def test_view_equal_to_the_file_is_the_basis(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.desk.write("a.txt", "one\n")
    old = host.namespace["view"]("a.txt")
    host.desk.write("a.txt", "two\n")
    new = host.namespace["view"]("a.txt")
    host.desk.write("a.txt", "one\n")
    bases = [old.GetDigest()["revision"], new.GetDigest()["revision"]]
    assert bases[0] != bases[1]
    with pytest.raises(OSError, match="has changed since"):
        host.namespace["write"]("a.txt", "x")
    host.desk.write("a.txt", "three\n")
    with pytest.raises(OSError, match="has changed since"):
        host.namespace["write"]("a.txt", "x")
    assert host.bases == bases


@pytest.mark.parametrize("path", ["b.txt", "missing", 3, None, "\0"])
def test_what_no_view_shows_has_no_basis(tmp_path: Path, path: object) -> None:
    host = Host(tmp_path)
    host.desk.write("a.txt", "one\n")
    handles = [host.namespace["view"](each) for each in ("a.txt", "missing")]
    handles.append(host.namespace["view"]("b.txt", text="part of it"))
    with pytest.raises(OSError, match=r"look at it again$"):
        host.namespace["write"](path, "x")
    assert host.bases == [None]


def test_text_with_half_a_surrogate_pair_is_refused(names: Names) -> None:
    for call in (
        lambda: names.namespace["write"]("a", "\udc80"),
        lambda: names.namespace["write"]("\udc80", "a"),
        lambda: names.namespace["read"](Path("\udcff")),
    ):
        with pytest.raises(ValueError, match=r"(write|read)\(\): (path|text) contains half of a surrogate pair"):
            call()
    assert names.asked == []
