"""Nobody overwrites what nobody has seen: what was seen, by the log, and what the refusal says."""

from __future__ import annotations

import errno

import msgspec
import pytest

from engine.core.ids import BlobDigest, ExecutionId, ToolCallId
from engine.files.revision import digest_of
from engine.log.events.execution import EffectAnswered, FileWritten
from engine.log.redaction import Redactor
from engine.session.tools import SeenFiles

EX, CALL, PATH = ExecutionId("ex"), ToolCallId("c"), "/p/a.py"
OLD, NEW = b"one\ntwo\nthree\n", b"one\n2\nthree\n"


def read(content: bytes, answer: str) -> tuple[EffectAnswered, dict[BlobDigest, bytes]]:
    blob = BlobDigest("read")
    event = EffectAnswered(
        execution_id=EX, ordinal=0, operation="read", result=blob, path=PATH, digest=digest_of(content)
    )
    return event, {blob: msgspec.json.encode(answer)}


def written(content: bytes) -> tuple[FileWritten, dict[BlobDigest, bytes]]:
    blob = BlobDigest("written")
    event = FileWritten(execution_id=EX, tool_call_id=CALL, path=PATH, after=blob, after_digest=digest_of(content))
    return event, {blob: content}


def seen(*known: tuple[EffectAnswered | FileWritten, dict[BlobDigest, bytes]]) -> SeenFiles:
    blobs = {digest: data for _, content in known for digest, data in content.items()}
    folded = SeenFiles(lambda digest: blobs[digest])
    for event, _ in known:
        folded.apply(event)
    return folded


def test_a_file_that_nobody_has_seen_may_be_changed() -> None:
    seen().check(PATH, OLD, None)
    seen(read(OLD, "")).check("/p/other", NEW, None)


def test_unchanged_known_file_may_be_changed() -> None:
    seen(read(OLD, OLD.decode())).check(PATH, OLD, None)
    seen(read(NEW, ""), written(OLD)).check(PATH, OLD, None)
    seen().check(PATH, OLD, digest_of(OLD))
    seen(written(NEW)).check(PATH, OLD, digest_of(OLD))
    seen(written(OLD)).check(PATH, OLD, digest_of(NEW))


def test_where_there_is_no_file_there_is_nothing_to_lose() -> None:
    seen(written(OLD)).check(PATH, None, digest_of(NEW))


@pytest.mark.parametrize(
    ("known", "basis", "since"),
    [
        ([written(OLD)], None, "it was last written"),
        ([written(NEW), read(OLD, OLD.decode())], None, "it was last read"),
        ([read(OLD, OLD.decode())], digest_of(b"?"), "it was last read"),
    ],
)
def test_one_that_has_changed_is_refused_with_the_difference(
    known: list[tuple[EffectAnswered | FileWritten, dict[BlobDigest, bytes]]], basis: str | None, since: str
) -> None:
    with pytest.raises(OSError, match=f"a.py has changed since {since}; look at the file again") as refused:
        seen(*known).check(PATH, NEW, basis, "a.py")
    assert refused.value.errno == errno.ESTALE
    assert refused.value.filename is None
    assert "1 line changed in a.py (+1 -1), first at line 2\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n" in str(refused.value)


@pytest.mark.parametrize(
    "known",
    [
        [read(OLD, "two\n")],
        [(EffectAnswered(execution_id=EX, ordinal=0, operation="read", path=PATH, digest=digest_of(OLD)), {})],
        [(FileWritten(execution_id=EX, tool_call_id=CALL, path=PATH, after_digest=digest_of(OLD)), {})],
        [(read(OLD, "")[0], {})],
        [],
    ],
)
def test_unknown_earlier_content_is_reported_as_changed(
    known: list[tuple[EffectAnswered | FileWritten, dict[BlobDigest, bytes]]],
) -> None:
    with pytest.raises(OSError, match=r"has changed since it was last (read|written|viewed); .* then change it$"):
        seen(*known).check(PATH, NEW, digest_of(b"viewed"))


@pytest.mark.parametrize("changed", range(4))
def test_the_difference_has_no_part_of_a_secret_on_several_lines(changed: int) -> None:
    key = "sk-proj-Zq7RkW3xYb9TfLm2PcVn5JhGdS8aEuQo1iXtBy4w"
    lines = [key[at : at + 12] for at in range(0, len(key), 12)]
    now = "\n".join(lines).encode()
    lines[changed] = "PLACEHOLDER"
    content = "\n".join(lines).encode()
    event, blobs = written(content)
    folded = SeenFiles(lambda digest: blobs[digest], Redactor([key]).hidden_lines)
    folded.apply(event)
    with pytest.raises(OSError, match="PLACEHOLDER") as refused:
        folded.check(PATH, now, None)
    assert not {key[at : at + 8] for at in range(8, len(key), 12)} & {*str(refused.value).split()}
    assert "+***" in str(refused.value)


def test_a_long_difference_is_cut() -> None:
    old, new = b"".join(b"%d\n" % n for n in range(5_000)), b"".join(b"%d.\n" % n for n in range(5_000))
    with pytest.raises(OSError, match="has changed since") as refused:
        seen(written(old)).check(PATH, new, None)
    assert len(str(refused.value)) < 2_500
