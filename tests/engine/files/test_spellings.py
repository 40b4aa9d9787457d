"""Which spelling of a name counts, on a file system that has only one of each, and on this one."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
import xxhash

from engine.core.ids import BlobDigest
from engine.files.protected import Protection
from engine.files.protected_names import fold
from engine.files.safe_open import place_to_write
from engine.files.search.globs import read_glob
from engine.files.search.ignore_files import FileRules, place_of
from engine.files.spellings import composed, folded, is_listed, stored_name, stored_path
from engine.log.events.going_back import FileToRestore
from engine.session.tool_records import file_state, states_after, states_before
from engine.session.tools import Workspace, restore
from engine.session.tools.tree import RemoveArguments, RenameArguments, remove, rename
from tests.support.folding import folding_directory, folds

COMPOSED, DECOMPOSED = "caf\u00e9.txt", "cafe\u0301.txt"


@pytest.fixture
def folding(tmp_path: Path) -> Iterator[Path]:
    try:
        with folding_directory(tmp_path) as place:
            yield place
    except (FileNotFoundError, PermissionError):
        pytest.skip("nothing may be mounted here")


def stored(folder: Path, name: str) -> str:
    pin = os.open(folder, os.O_PATH)
    try:
        return stored_name(pin, name)
    finally:
        os.close(pin)


def names_below(folder: Path) -> list[str]:
    return [str(each.relative_to(folder)) for each in folder.rglob("*")]


def test_a_directory_lists_one_spelling(folding: Path) -> None:
    (folding / "Sub").mkdir()
    (folding / "Sub" / "Readme.md").write_text("")
    (folding / "Sub" / COMPOSED).write_text("")
    assert stored(folding / "sub", "README.md") == "Readme.md"
    # HFS+ stores it decomposed, as the file system of the tests does, and APFS as it was written.
    assert stored(folding / "sub", COMPOSED.upper()) in (DECOMPOSED, COMPOSED)
    assert stored(folding / "sub", COMPOSED.upper()) in os.listdir(folding / "Sub")
    assert stored(folding / "sub", "absent") == "absent"
    assert stored_path(str(folding / "sUB" / "README.MD")) == str(folding / "Sub" / "Readme.md")
    assert stored_path(str(folding / "sub" / "New" / "er")) == str(folding / "Sub" / "New" / "er")
    assert is_listed(str(folding / "Sub" / "Readme.md"))
    assert not is_listed(str(folding / "sub" / "Readme.md"))
    assert not is_listed(str(folding / "absent"))
    with place_to_write(str(folding / "sub" / "readme.md")) as place:
        assert place.path == str(folding / "Sub" / "Readme.md")


def test_spellings_are_different_files_here(tmp_path: Path) -> None:
    if folds(tmp_path):
        pytest.skip("spellings are one file here")
    for name in ("a", "A", COMPOSED, DECOMPOSED):
        (tmp_path / name).write_text(name)
    os.link(tmp_path / "a", tmp_path / "b")
    os.link(tmp_path / "b", tmp_path / "B")
    for name in ("a", "A", "b", "B", COMPOSED, DECOMPOSED, "absent"):
        assert stored(tmp_path, name) == name
        assert stored_path(str(tmp_path / name)) == str(tmp_path / name)


def test_what_spellings_have_in_common() -> None:
    assert folded(COMPOSED) == folded(DECOMPOSED.upper())
    assert composed(DECOMPOSED) == COMPOSED
    assert folded("a") != folded("\u00e4")
    assert fold(".GIT") == fold(".g\u200cit") == ".git"
    assert fold(".con\ufb01g") == ".config"  # a ligature
    assert fold("\u212a") == "k"


def test_no_spelling_of_a_protected_name_is_free(folding: Path) -> None:
    (folding / ".git").mkdir()
    (folding / ".git" / "config").write_text("")
    why = Protection((str(folding),)).why
    for path in (".GIT/Config", ".g\u200cit/config", ".git/CONFIG", ".Envrc", ".vSCode/tasks.json"):
        assert why(str(folding / path)), path
    assert not why(str(folding / "config"))


def test_acts_name_the_stored_spelling(folding: Path) -> None:
    (folding / "Readme.md").write_text("one")
    workspace = Workspace(str(folding))
    name = str(folding / "Readme.md")
    assert remove(workspace, RemoveArguments(path="README.MD")).paths == (name,)
    act = rename(workspace, RenameArguments(path="README.md", source="readme.MD"))
    new = str(folding / "README.md")
    assert act.paths == (name, new)
    before = states_before(act)
    act.do()
    assert os.listdir(folding) == ["README.md"]
    after = {path: (old.data, state.data) for path, old, state in states_after(act, before)}
    assert after == {name: (b"one", None), new: (None, b"one")}
    assert file_state(new, 10).data == b"one"
    assert not file_state(name, 10).digest


def test_patterns_find_names_in_another_form(tmp_path: Path) -> None:
    expression = re.compile(read_glob("caf\u00e9*").expression)
    assert expression.fullmatch(composed(DECOMPOSED))
    assert expression.pattern == read_glob(unicodedata.normalize("NFD", "caf\u00e9*")).expression
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("/caf\u00e9.txt\n")
    rules = FileRules(place_of(str(tmp_path), (str(tmp_path),)))
    assert rules.leave_out(DECOMPOSED)
    assert rules.leave_out(COMPOSED)
    assert not rules.leave_out("cafe.txt")


def test_a_rewind_gives_directories_their_spelling_and_removes_nothing_by_another(folding: Path) -> None:
    (folding / "sub").mkdir()
    (folding / "sub" / "a.txt").write_text("a")
    workspace, digest = Workspace(str(folding)), xxhash.xxh3_64_hexdigest(b"a")
    back = FileToRestore(
        path=str(folding / "Sub" / "A.txt"),
        present=None,
        present_digest="",
        wanted=BlobDigest("a"),
        wanted_digest=digest,
    )
    synced: list[list[str]] = []
    assert restore(workspace, back, b"a", sync=lambda _: synced.append(names_below(folding))) is not None
    assert synced == [["Sub", "Sub/a.txt"], ["Sub", "Sub/A.txt"]]
    for gone in ("sub/A.txt", "Sub/a.txt"):
        gone_now = FileToRestore(
            path=str(folding / gone), present=BlobDigest("a"), present_digest=digest, wanted=None, wanted_digest=""
        )
        assert restore(workspace, gone_now, None) is None
    older = FileToRestore(
        path=str(folding / "SUB" / "A.txt"), present_digest=digest, wanted=BlobDigest("b"), wanted_digest="b"
    )
    assert restore(workspace, older, b"b") is None
    assert os.listdir(folding) == ["Sub"]
    assert (folding / "Sub" / "A.txt").read_text() == "a"
