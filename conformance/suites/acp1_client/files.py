"""Files that clients serve: reading whole files, ranges of lines, unusual characters; and writing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from conformance.driver import StoppedError
from conformance.judging import PASS, Judge, Requirement, Verdict, evidence, failed, not_tested
from conformance.suite import Scenario
from conformance.suites.acp1 import AGREED, definition, prose, results_fit, schema
from conformance.suites.acp1_client.agent import SIDE, InTurn, Turn, answered, granted, marked
from conformance.traffic import Traffic

_READ: Final = "fs.readTextFile"
_WRITE: Final = "fs.writeTextFile"
LINES: Final = "one\ntwo\nthree\nfour\nfive\n"
WIDE: Final = "\u00e9 \u4e2d \U0001f600\r\n\u2028 no end"
TEXT: Final = "new \u00e9 \U0001f600\nlast line without an end"


def _exactly(expected: str) -> Callable[[object], bool]:
    return lambda content: content == expected


def _lines(*expected: str) -> Callable[[object], bool]:
    """Accept these lines, with or without a final newline."""
    return lambda content: isinstance(content, str) and content.rstrip("\n").split("\n") == list(expected)


def _content(is_right: Callable[[object], bool], *labels: str) -> Judge:
    def judge(traffic: Traffic) -> Verdict:
        requests = marked(traffic, *labels)
        if not requests:
            return not_tested("the file was not requested")
        for request in requests:
            verdict = granted(*labels)(traffic)
            if verdict.outcome != "pass":
                return verdict
            assert request.answer
            content = request.answer.result.get("content")
            if not is_right(content):
                return failed(f"the content is {str(content)[:80]!r}", *evidence(request))
        return PASS

    return judge


def _written(label: str) -> Judge:
    """The written text is on disk, or the client reads it back."""

    def judge(traffic: Traffic) -> Verdict:
        verdict = granted(label)(traffic)
        if verdict.outcome != "pass":
            return verdict
        found = [entry.value for entry in traffic.marks(f"{label}-on-disk")]
        found += [r.answer.result.get("content") for r in marked(traffic, f"{label}-back") if r.answer is not None]
        if any(isinstance(text, str) and text.rstrip("\n") == TEXT for text in found):
            return PASS
        texts = [f"holds {text[:80]!r}" if isinstance(text, str) else "is missing" for text in found]
        said = "".join(f", and when the client reads it back, it {text}" for text in texts[1:])
        return failed(f"the file on disk {texts[0]}{said}", *evidence(marked(traffic, label)[0]))

    return judge


def _own_content(traffic: Traffic) -> Verdict:
    """No read returns the content of another file. Other wrong content belongs to another requirement."""
    for number in range(3):
        verdict = granted(f"file-{number}")(traffic)
        if verdict.outcome != "pass":
            return verdict
        (request,) = marked(traffic, f"file-{number}")
        content = request.answer.result.get("content") if request.answer is not None else None
        if any(_lines(f"file {other}")(content) for other in range(3) if other != number):
            return failed(
                f"the content is {str(content)[:80]!r}, which is the content of another file", *evidence(request)
            )
    return PASS


def _as_absent(traffic: Traffic) -> Verdict:
    """Null in optional fields reads the same content as absent fields."""
    verdict = granted("nulls")(traffic)
    if verdict.outcome != "pass":
        return verdict
    (given,) = marked(traffic, "nulls")
    for plain in marked(traffic, "whole"):
        contents = [one.answer.result.get("content") for one in (plain, given) if one.answer is not None]
        if plain.succeeded and contents[1] not in (LINES, contents[0]):
            reason = f"the content is {str(contents[1])[:80]!r}, but {str(contents[0])[:80]!r} without the fields"
            return failed(reason, *evidence(plain), *evidence(given))
    return PASS


def _object_or_null(traffic: Traffic) -> Verdict:
    requests = marked(traffic, "new", "over")
    for request in requests:
        # The page on files shows `"result": null`, but the schema requires an object.
        if request.answer is not None and request.succeeded and not _is_empty(request.answer.object["result"]):
            return failed(f"the result is {request.answer.object['result']!r}", *evidence(request))
    return PASS if requests else not_tested("nothing was written")


def _is_empty(result: object) -> bool:
    return result is None or not definition("WriteTextFileResponse")(result)


_CONTENTS = "The `fs/read_text_file` method allows Agents to read text file contents from the Client's filesystem"
_LINE = "Line number to start reading from (1-based)."
_LIMIT = "Maximum number of lines to read."
_ERRORS = "Errors include an `error` object with `code` and `message`"


# --- requirements -----------------------------------------------------------------------------------------------------


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-C-FS-001",
        "capability",
        "The client answers fs/read_text_file in the schema's shape.",
        schema("/$defs/ReadTextFileResponse/required", '["content"]'),
        results_fit("fs/read_text_file", "ReadTextFileResponse", SIDE),
        applies=_READ,
        violation='{"text":"..."}',
    ),
    Requirement(
        "ACP1-C-FS-002",
        "advisory",
        "The client reads a whole file unchanged.",
        prose("file-system", _CONTENTS),
        _content(_exactly(LINES), "whole"),
        scenario="read-file",
        applies=_READ,
        violation='{"content":""}',
    ),
    Requirement(
        "ACP1-C-FS-003",
        "capability",
        "The client accepts null for the first line and the number of lines.",
        AGREED,
        _as_absent,
        scenario="read-file",
        applies=_READ,
        violation='"code":-32602 for "line":null',
    ),
    Requirement(
        "ACP1-C-FS-004",
        "advisory",
        "The client reads from a given line; the first line is 1.",
        schema("/$defs/ReadTextFileRequest/properties/line", _LINE),
        _content(_lines("four", "five"), "from-line"),
        scenario="read-file",
        applies=_READ,
        violation='"line":4 answered from the fifth line on',
    ),
    Requirement(
        "ACP1-C-FS-005",
        "advisory",
        "The client reads at most the given number of lines.",
        schema("/$defs/ReadTextFileRequest/properties/limit", _LIMIT),
        _content(_lines("one", "two"), "limited"),
        scenario="read-file",
        applies=_READ,
        violation='"limit":2 answered with the whole file',
    ),
    Requirement(
        "ACP1-C-FS-006",
        "advisory",
        "The client reads the given number of lines from a given line.",
        schema("/$defs/ReadTextFileRequest/properties/limit", _LIMIT),
        _content(_lines("two", "three"), "part"),
        scenario="read-file",
        applies=_READ,
        violation='"line":2,"limit":2 answered with one line',
    ),
    Requirement(
        "ACP1-C-FS-007",
        "advisory",
        "The client preserves characters and line ends.",
        prose("file-system", _CONTENTS),
        _content(_exactly(WIDE), "wide"),
        scenario="read-file",
        applies=_READ,
        violation='"\\n" where the file holds "\\r\\n"',
    ),
    Requirement(
        "ACP1-C-FS-008",
        "advisory",
        "The client answers a request for a missing file with an error.",
        schema("/$defs/ErrorCode/anyOf/7", "A given resource, such as a session or file, was not found."),
        answered("missing", expect="error"),
        scenario="read-file",
        applies=_READ,
        violation='{"content":""}',
    ),
    Requirement(
        "ACP1-C-FS-009",
        "informational",
        "The client answers a request for a line beyond the end of the file.",
        schema("/$defs/ReadTextFileRequest/properties/line", _LINE),
        answered("beyond"),
        scenario="read-file",
        applies=_READ,
        violation="silence",
    ),
    Requirement(
        "ACP1-C-FS-010",
        "informational",
        "The client refuses a path that is not absolute.",
        prose("overview", "All file paths in the protocol **MUST** be absolute."),
        answered("relative", expect="error"),
        scenario="read-file",
        applies=_READ,
        violation="a file of the client's own directory",
    ),
    Requirement(
        "ACP1-C-FS-011",
        "capability",
        "The client answers parallel reads with the content of the right file.",
        prose("json-rpc", "It MUST be the same as the value of the id member in the Request Object."),
        _own_content,
        scenario="read-files-at-once",
        applies=_READ,
        violation="the content of the first file for the second",
    ),
    Requirement(
        "ACP1-C-FS-012",
        "capability",
        "The client creates a missing file when writing.",
        prose("file-system", "The Client **MUST** create the file if it doesn't exist."),
        _written("new"),
        scenario="write-file",
        applies=_WRITE,
        violation="an error, because there is no such file",
    ),
    Requirement(
        "ACP1-C-FS-013",
        "advisory",
        "The client replaces the whole content of an existing file.",
        schema("/$defs/WriteTextFileRequest/properties/content", "The text content to write to the file."),
        _written("over"),
        scenario="write-file",
        applies=_WRITE,
        violation="the end of the earlier, longer text remains",
    ),
    Requirement(
        "ACP1-C-FS-014",
        "capability",
        "The client answers fs/write_text_file in the schema's shape.",
        schema("/$defs/WriteTextFileResponse", '"type": "object"'),
        _object_or_null,
        applies=_WRITE,
        violation='"result":true',
    ),
)


# --- scenarios --------------------------------------------------------------------------------------------------------


@contextmanager
def folder(turn: Turn) -> Generator[Path]:
    """Yield a temporary directory within the session's directory."""
    if not Path(turn.cwd).is_dir() or not Path(turn.cwd).is_absolute():
        raise StoppedError(f"the session's directory {turn.cwd!r} does not exist, so no file can be created there")
    try:
        with tempfile.TemporaryDirectory(prefix="rewindow-conformance-", dir=turn.cwd) as folder:
            yield Path(folder)
    except OSError as error:
        raise StoppedError(f"cannot create a file in the session's directory: {error}") from None


def put(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8", newline="")
    return str(path)


def _run_read(turn: Turn) -> None:
    turn.need("fs.readTextFile")
    with folder(turn) as where:
        path = put(where / "lines.txt", LINES)
        turn.call("fs/read_text_file", "whole", path=path)
        turn.call("fs/read_text_file", "nulls", path=path, line=None, limit=None, _meta=None)
        turn.call("fs/read_text_file", "from-line", path=path, line=4)
        turn.call("fs/read_text_file", "limited", path=path, limit=2)
        turn.call("fs/read_text_file", "part", path=path, line=2, limit=2)
        turn.call("fs/read_text_file", "beyond", path=path, line=50)
        turn.call("fs/read_text_file", "wide", path=put(where / "wide.txt", WIDE))
        turn.call("fs/read_text_file", "missing", path=str(where / "missing.txt"))
        turn.call("fs/read_text_file", "relative", path=f"{where.name}/lines.txt")


def _run_read_many(turn: Turn) -> None:
    turn.need("fs.readTextFile")
    with folder(turn) as where:
        paths = [put(where / f"{number}.txt", f"file {number}\n") for number in range(3)]
        requests = [turn.ask("fs/read_text_file", f"file-{number}", path=path) for number, path in enumerate(paths)]
        for request in requests:
            turn.driver.response(request)


def _run_write(turn: Turn) -> None:
    turn.need("fs.writeTextFile")
    with folder(turn) as where:
        old = where / "old.txt"
        put(old, "a longer text that was there before\n" * 10)
        for label, path in (("new", where / "new.txt"), ("over", old)):
            turn.call("fs/write_text_file", label, path=str(path), content=TEXT)
            if turn.offers("fs.readTextFile"):
                turn.call("fs/read_text_file", f"{label}-back", path=str(path))
            turn.driver.mark(f"{label}-on-disk", path.read_bytes().decode(errors="replace") if path.exists() else None)


SCENARIOS: Final = (
    Scenario(
        "read-file", "Reads a whole file, a file from a given line, a few lines, and a missing file.", InTurn(_run_read)
    ),
    Scenario("read-files-at-once", "Reads three files at the same time.", InTurn(_run_read_many)),
    Scenario("write-file", "Writes a new file, and an existing file.", InTurn(_run_write)),
)
