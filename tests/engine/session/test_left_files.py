"""Which files a rewind leaves as they are: each rule on plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.core.ids import BlobDigest, ExecutionId, Seq, ToolCallId
from engine.log.events.execution import FileWritten
from engine.log.events.going_back import FileLeft, FileToRestore, RewindBegun, Rewound
from engine.log.events.session import OthersWrote
from engine.log.facts import SessionFacts
from engine.log.file_history import Restorable
from engine.log.redaction import HIDDEN
from engine.session.past.left_files import (
    HIDDEN_PATH,
    NOT_STORED,
    NOT_UTF8,
    ONLY_COPY,
    PROTECTED,
    Claims,
    OnlyCopies,
    leaving,
    why_protected,
    why_unknown,
    without_protected,
)
from engine.session.tools import REPLACED, UNTRUSTED, Workspace


def file(path: str, present: str = "new", wanted: str = "old", **fields: Any) -> FileToRestore:
    """A file with contents that are stored, unless `fields` say otherwise; an empty text stands for no file."""
    given = {"present": BlobDigest(present) if present else None, "wanted": BlobDigest(wanted) if wanted else None}
    return FileToRestore(path=path, **{"present_digest": present, "wanted_digest": wanted, **given, **fields})


def reasons(found: Restorable) -> dict[str, str]:
    return {each.path: each.reason for each in found.left}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (file("/a"), ""),
        (file(f"/{HIDDEN}/a"), HIDDEN_PATH),
        (file("/a", present=""), ""),
        (file("/a", present_digest="large", present=""), NOT_STORED),
        (file(f"/{REPLACED}"), ""),
        (file(f"/{REPLACED}", present=""), NOT_UTF8),
        (file(f"/{REPLACED}", wanted=""), NOT_UTF8),
    ],
)
def test_unknown_place_or_content_stays(given: FileToRestore, reason: str) -> None:
    assert why_unknown(given) == reason


def test_moved_file_stays_if_its_earlier_name_is_not_restored() -> None:
    moved = file("/new", "text", "", source="/old")
    found = leaving(Restorable((file("/old", "", "text"), moved), ()), lambda each: "no" if each.path == "/old" else "")
    assert found.files == ()
    assert reasons(found) == {"/old": "no", "/new": ONLY_COPY}


def test_content_tells_a_file_that_moved_twice() -> None:
    copies = OnlyCopies()
    copies.leave(file("/old", "", "text"))
    assert copies.has(file("/newest", "text", ""))
    assert not copies.has(file("/other", "text", "else"))  # whose content is kept
    assert not copies.has(file("/fresh", "own", ""))


def test_file_that_was_left_before_holds_another_back() -> None:
    chain = (file("/b", "2", "3", source="/a"), file("/c", "3", "", source="/b"), file("/d"))
    found = leaving(Restorable(chain, (FileLeft(path="/a", reason="no"),)), lambda _: "")
    assert [each.path for each in found.files] == ["/d"]
    assert reasons(found) == {"/a": "no", "/b": ONLY_COPY, "/c": ONLY_COPY}


def test_empty_files_are_nobodys_only_copy() -> None:
    empty = "2d06800538d394c2"
    copies = OnlyCopies()
    copies.leave(file("/old", "", empty))
    assert not copies.has(file("/new", empty, ""))


# --- claims -----------------------------------------------------------------------------------------------------------


def written(path: str, after: str, **fields: Any) -> FileWritten:
    return FileWritten(
        execution_id=ExecutionId("ex"),
        tool_call_id=ToolCallId("call"),
        path=path,
        **{"before_digest": "before", "after_digest": after, "seq": Seq(2), **fields},
    )


def facts(by: str = "") -> SessionFacts:
    found = SessionFacts()
    if by:
        found.apply(OthersWrote(by="import" if by == "import" else "client", seq=Seq(10)))
    return found


def test_only_what_the_user_allowed_in_a_protected_file_is_no_claim() -> None:
    events = [written("/a", "evil"), written("/.envrc", "allowed", protected=True, seq=Seq(20))]
    claims = Claims(events, facts("client"))
    assert [claims.has(file("/.envrc", wanted=each)) for each in ("before", "allowed")] == [False, False]
    # A merge or a program that was left running may have written any other content.
    assert [claims.has(file("/.envrc", wanted=each)) for each in ("evil", "another")] == [True, True]
    assert claims.has(file("/a", wanted="before"))
    assert claims.has(file("/b", wanted="allowed"))
    assert not claims.has(file("/.envrc", wanted=""))
    assert not claims.has(file("/.envrc", wanted="2d06800538d394c2"))
    assert not Claims(events, facts("client"), is_way_back=True).has(file("/.envrc", wanted="evil"))
    assert not Claims(events, facts()).has(file("/.envrc", wanted="evil"))


def test_an_import_cannot_say_that_the_user_allowed_a_content() -> None:
    claims = Claims([written("/.envrc", "evil", protected=True, seq=Seq(3))], facts("import"))
    assert claims.has(file("/.envrc", wanted="evil"))


def test_reported_and_imported_paths_are_claims() -> None:
    told = written("/told", "x", noticed=True, seq=Seq(20))
    back = Rewound(statement=1, restored=(file("/back"),), seq=Seq(3))
    begun = RewindBegun(statement=1, since=Seq(0), files=(file("/begun"),), seq=Seq(20))
    claims = Claims([told, written("/read", "y"), back, begun], facts("import"), is_way_back=True)
    assert [path for path in ("/told", "/read", "/back", "/begun") if claims.has(file(path))] == [
        "/told",
        "/read",
        "/back",
    ]


def test_claimed_contents_stay_out_of_protected_files(tmp_path: Path) -> None:
    workspace = Workspace(str(tmp_path))
    hook, plain = str(tmp_path / ".envrc"), str(tmp_path / "a")
    claims = Claims([written(hook, "fine", protected=True)], facts("client"))
    found = Restorable((file(hook, wanted="evil"), file(plain, wanted="evil"), file(f"{hook}2", wanted="fine")), ())
    assert claims.without_untrusted(Restorable((file(hook, wanted="fine"),), ()), workspace).left == ()
    kept = claims.without_untrusted(found, workspace)
    assert [each.path for each in kept.files] == [plain, f"{hook}2"]
    assert reasons(kept) == {hook: UNTRUSTED.format(why_protected(workspace, hook))}


def test_client_writes_no_protected_file(tmp_path: Path) -> None:
    workspace = Workspace(str(tmp_path))
    hook, plain = str(tmp_path / ".envrc"), str(tmp_path / "a")
    found = without_protected(Restorable((file(hook), file(plain)), ()), workspace)
    assert [each.path for each in found.files] == [plain]
    assert reasons(found) == {hook: PROTECTED.format(why_protected(workspace, hook))}
    assert why_protected(workspace, "/a\0")
