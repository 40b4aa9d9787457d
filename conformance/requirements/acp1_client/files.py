"""Files, behind the client's capabilities: what is read, from which line, how much, and what is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.judging import evidence
from conformance.requirement import Judge, Requirement
from conformance.requirements.acp1 import AGREED, definition, prose, result_is, schema
from conformance.requirements.acp1_client.reading import SIDE, answered, granted, marked
from conformance.scenarios.acp1_client.files import LINES, TEXT, WIDE
from conformance.traffic import Traffic
from conformance.verdict import PASS, Verdict, failed, not_tested

_READ: Final = "fs.readTextFile"
_WRITE: Final = "fs.writeTextFile"


def _exactly(expected: str) -> Callable[[object], bool]:
    return lambda content: content == expected


def _lines(*expected: str) -> Callable[[object], bool]:
    """These lines; whether a newline follows the last is not said."""
    return lambda content: isinstance(content, str) and content.rstrip("\n").split("\n") == list(expected)


def _content(is_right: Callable[[object], bool], *labels: str) -> Judge:
    def judge(traffic: Traffic) -> Verdict:
        requests = marked(traffic, *labels)
        if not requests:
            return not_tested("the file was not asked for")
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
    """What was written is on the disk, or is what the client says that it holds."""

    def judge(traffic: Traffic) -> Verdict:
        verdict = granted(label)(traffic)
        if verdict.outcome != "pass":
            return verdict
        found = [entry.value for entry in traffic.marks(f"{label}-on-disk")]
        found += [r.answer.result.get("content") for r in marked(traffic, f"{label}-back") if r.answer is not None]
        if any(isinstance(text, str) and text.rstrip("\n") == TEXT for text in found):
            return PASS
        texts = [f"holds {text[:80]!r}" if isinstance(text, str) else "is not there" for text in found]
        said = "".join(f", and the client says that it {text}" for text in texts[1:])
        return failed(f"the file on disk {texts[0]}{said}", *evidence(marked(traffic, label)[0]))

    return judge


def _own_content(traffic: Traffic) -> Verdict:
    """No read is answered with the file of another one. What is in no file at all is another requirement's matter."""
    for number in range(3):
        verdict = granted(f"file-{number}")(traffic)
        if verdict.outcome != "pass":
            return verdict
        (request,) = marked(traffic, f"file-{number}")
        content = request.answer.result.get("content") if request.answer is not None else None
        if any(_lines(f"file {other}")(content) for other in range(3) if other != number):
            return failed(f"the content is {str(content)[:80]!r}, that of another file", *evidence(request))
    return PASS


def _as_absent(traffic: Traffic) -> Verdict:
    """With null in optional fields a file is read as it is without them."""
    verdict = granted("nulls")(traffic)
    if verdict.outcome != "pass":
        return verdict
    (given,) = marked(traffic, "nulls")
    for plain in marked(traffic, "whole"):
        contents = [one.answer.result.get("content") for one in (plain, given) if one.answer is not None]
        if plain.succeeded and contents[1] not in (LINES, contents[0]):
            reason = f"the content is {str(contents[1])[:80]!r}, and without the fields {str(contents[0])[:80]!r}"
            return failed(reason, *evidence(plain), *evidence(given))
    return PASS


def _object_or_null(traffic: Traffic) -> Verdict:
    requests = marked(traffic, "new", "over")
    for request in requests:
        # The page on files has `"result": null`, the schema an object.
        if request.answer is not None and request.succeeded and not _is_empty(request.answer.object["result"]):
            return failed(f"the result is {request.answer.object['result']!r}", *evidence(request))
    return PASS if requests else not_tested("nothing was written")


def _is_empty(result: object) -> bool:
    return result is None or not definition("WriteTextFileResponse")(result)


_CONTENTS = "The `fs/read_text_file` method allows Agents to read text file contents from the Client's filesystem"
_LINE = "Line number to start reading from (1-based)."
_LIMIT = "Maximum number of lines to read."
_ERRORS = "Errors include an `error` object with `code` and `message`"

REQUIREMENTS: Final = (
    Requirement(
        "ACP1-C-FS-001",
        "capability",
        "The client answers fs/read_text_file in the schema's shape.",
        schema("/$defs/ReadTextFileResponse/required", '["content"]'),
        result_is("fs/read_text_file", "ReadTextFileResponse", SIDE),
        applies=_READ,
        violation='{"text":"..."}',
    ),
    Requirement(
        "ACP1-C-FS-002",
        "advisory",
        "The client reads a whole file, as it is.",
        prose("file-system", _CONTENTS),
        _content(_exactly(LINES), "whole"),
        scenario="read-file",
        applies=_READ,
        violation='{"content":""}',
    ),
    Requirement(
        "ACP1-C-FS-003",
        "capability",
        "The client takes null for the first line and for the number of lines.",
        AGREED,
        _as_absent,
        scenario="read-file",
        applies=_READ,
        violation='"code":-32602 for "line":null',
    ),
    Requirement(
        "ACP1-C-FS-004",
        "advisory",
        "The client reads from a line on, of which the first is 1.",
        schema("/$defs/ReadTextFileRequest/properties/line", _LINE),
        _content(_lines("four", "five"), "from-line"),
        scenario="read-file",
        applies=_READ,
        violation='"line":4 answered from the fifth line on',
    ),
    Requirement(
        "ACP1-C-FS-005",
        "advisory",
        "The client reads no more lines than it is asked for.",
        schema("/$defs/ReadTextFileRequest/properties/limit", _LIMIT),
        _content(_lines("one", "two"), "limited"),
        scenario="read-file",
        applies=_READ,
        violation='"limit":2 answered with the whole file',
    ),
    Requirement(
        "ACP1-C-FS-006",
        "advisory",
        "The client reads so many lines from a line on.",
        schema("/$defs/ReadTextFileRequest/properties/limit", _LIMIT),
        _content(_lines("two", "three"), "part"),
        scenario="read-file",
        applies=_READ,
        violation='"line":2,"limit":2 answered with one line',
    ),
    Requirement(
        "ACP1-C-FS-007",
        "advisory",
        "The client keeps characters and line ends as they are.",
        prose("file-system", _CONTENTS),
        _content(_exactly(WIDE), "wide"),
        scenario="read-file",
        applies=_READ,
        violation='"\\n" where the file holds "\\r\\n"',
    ),
    Requirement(
        "ACP1-C-FS-008",
        "advisory",
        "The client answers the wish for a file that is not there with an error.",
        schema("/$defs/ErrorCode/anyOf/7", "A given resource, such as a session or file, was not found."),
        answered("missing", expect="error"),
        scenario="read-file",
        applies=_READ,
        violation='{"content":""}',
    ),
    Requirement(
        "ACP1-C-FS-009",
        "informational",
        "The client answers a line beyond the end of the file.",
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
        "Of several reads that wait at the same time, the client answers none with the file of another.",
        prose("json-rpc", "It MUST be the same as the value of the id member in the Request Object."),
        _own_content,
        scenario="read-files-at-once",
        applies=_READ,
        violation="the content of the first file for the second",
    ),
    Requirement(
        "ACP1-C-FS-012",
        "capability",
        "The client writes a file that was not there.",
        prose("file-system", "The Client **MUST** create the file if it doesn't exist."),
        _written("new"),
        scenario="write-file",
        applies=_WRITE,
        violation="an error, because there is no such file",
    ),
    Requirement(
        "ACP1-C-FS-013",
        "advisory",
        "The client writes over a file that was there, so that nothing of it is left.",
        schema("/$defs/WriteTextFileRequest/properties/content", "The text content to write to the file."),
        _written("over"),
        scenario="write-file",
        applies=_WRITE,
        violation="the end of the longer text that was there before",
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
