"""What is fuzzed: everything that parses bytes or JSON of others. Each target is one row of `TARGETS`, at the end.

A target gets bytes. It fails with any exception that its parser does not document, or if a property does not hold: what
is read again is the same, both halves of a stream are read like the whole, what is accepted is allowed by the schema.
"""

from __future__ import annotations

import atexit
import io
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final, Literal

import jsonschema_rs
import msgspec

from acp_adapter import v1, v2
from acp_adapter.jsonrpc.lines import Line, LineDecoder, ParseError, decode, encode
from acp_adapter.jsonrpc.messages import Call, Code, Invalid, WireError, WireShapeError, classify, error_response
from engine.cli.transfer.commands import read as read_foreign
from engine.cli.transfer.jsonl import export_lines, import_lines
from engine.cli.transfer.writer import Writer
from engine.context.view import ViewFold
from engine.core.diff import change_size, heading_of, hunk_lines, hunks, opcodes, unseen_changes, within
from engine.core.errors import InvalidRequestError
from engine.core.execution import TextChange
from engine.core.ids import Minter, SessionId
from engine.files.search import commands, globs
from engine.files.search.ignore_files import IgnoreFiles
from engine.log.events.codec import decode as decode_event
from engine.log.events.codec import encode as encode_event
from engine.log.redaction import NO_SECRETS
from engine.log.store.memory import MemoryStore
from engine.runtime.control_channel import MessageReader
from engine.runtime.worker import framing
from engine.session.tools import mcp_forms, mcp_listing, mcp_prompts
from mcp_tools import resources
from mcp_tools.replies import ArgumentError
from mcp_tools.tools import PYTHON_TOOLS, TOOLS
from mcp_tools.tools.schema import check_arguments
from tests.support.fixed import CountingEntropy, FixedClock

Kind = Literal["bytes", "json", "lines", "msgpack"]


@dataclass(frozen=True)
class Target:
    """One parser. `kind` says how inputs are changed beside single bytes; `modules` are those whose coverage counts."""

    name: str
    kind: Kind
    run: Callable[[bytes], None]
    modules: tuple[str, ...]
    minutes: int = 10


def _json(data: bytes) -> Any:
    """The value as a protocol would have read it; None if there is none."""
    try:
        return decode(data)
    except ParseError:
        return None


def _is_sentence(error: Exception, most: int = 1_000) -> None:
    """A refusal says something, and not at any length."""
    assert 0 < len(str(error)) < most, error


# --- JSON-RPC and ACP -------------------------------------------------------------------------------------------------

_LIMIT: Final = 3_000


def jsonrpc(data: bytes) -> None:
    """Frames do not depend on the pieces, and each line becomes a message, or an answer that JSON readers accept."""
    whole = LineDecoder(_LIMIT)
    frames = whole.feed(data) + whole.eof()
    cut = data[0] % len(data) if data else 0
    halves = LineDecoder(_LIMIT)
    assert halves.feed(data[:cut]) + halves.feed(data[cut:]) + halves.eof() == frames
    for frame in frames:
        if isinstance(frame, Line):
            _line(frame.data)


def _line(line: bytes) -> None:
    try:
        value = decode(line)
    except ParseError:
        return
    message = classify(value)
    if isinstance(message, Call | Invalid):
        answer = error_response(message.id, WireError(Code.INVALID_REQUEST, "no"))
        assert json.loads(encode(answer))["id"] == message.id
    try:
        encoded = encode(value)
    except TypeError:
        return  # nested deeper than any message that the agent sends
    assert encode(decode(encoded)) == encoded


_METHODS: Final = [(version, method) for version in (v1, v2) for method in sorted(version.METHODS)]


def acp_params(data: bytes) -> None:
    """The params of any method are read, or refused with the path of what is wrong."""
    if not data:
        return
    version, method = _METHODS[data[0] % len(_METHODS)]
    params = _json(data[1:])
    try:
        version.read_params(method, params)
    except WireShapeError as error:
        _is_sentence(error)


# --- MCP --------------------------------------------------------------------------------------------------------------

_ROWS: Final = (*TOOLS, *PYTHON_TOOLS)


@cache
def _validator(row: int) -> Any:
    # Our check leaves patterns to the tools, which explain names.
    schema = json.loads(json.dumps(_ROWS[row].schema))
    for each in schema["properties"].values():
        each.pop("pattern", None)
    return jsonschema_rs.validator_for(schema)


def mcp_params(data: bytes) -> None:
    """What our check of arguments accepts, a validator of JSON Schema accepts too; resources are known or refused."""
    if not data:
        return
    number = data[0] % len(_ROWS)
    given = _json(data[1:])
    if isinstance(given, str):
        try:
            _finished(resources.read(None, given))
        except resources.UnknownResourceError as error:
            _is_sentence(error, 1_000)
    if not isinstance(given, dict):
        return
    row = _ROWS[number]
    row.takes_long(given)
    try:
        accepted = check_arguments(row.name, row.schema, given)
    except ArgumentError as error:
        _is_sentence(error, 1_000)
        return
    assert _validator(number).is_valid(accepted), accepted


def _finished(work: Any) -> Any:
    """Run a coroutine that has nothing to wait for."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("it waits")


def schemas(data: bytes) -> None:
    """The tools, prompts, forms and answers of a server become Python names and texts, whatever they say."""
    offered = _json(data)
    if not isinstance(offered, dict):
        return
    lists = {key: [each for each in _list(offered.get(key)) if isinstance(each, dict)] for key in _OFFERS}
    instructions = offered.get("instructions")
    found = mcp_listing.listing(
        lists["tools"],
        lists["resources"],
        instructions if isinstance(instructions, str) else None,
        prompts=lists["prompts"],
    )
    msgspec.msgpack.encode(mcp_listing.help_on(found, "server", "server"))
    arguments = {key: value for key, value in offered.items() if key != "tools"}
    for name, tool in list(found.tools.items())[:5]:
        assert name.isidentifier(), name
        assert not iskeyword(name), name
        assert all(each.name.isidentifier() and not iskeyword(each.name) for each in tool.parameters), tool
        try:
            mcp_listing.shown_arguments(mcp_listing.arguments_of(tool, name, arguments))
        except TypeError as error:
            _is_sentence(error, 20_000)
    for prompt in list(found.prompts.values())[:5]:
        try:
            mcp_prompts.bound(prompt, ["a", "b=c"])
        except ValueError as error:
            _is_sentence(error)
    mcp_prompts.read_prompt(lists["messages"], "server")
    for each in lists["tools"][:3]:
        schema = each.get("inputSchema")
        if isinstance(schema, dict):
            _form(schema)


_OFFERS: Final = ("tools", "resources", "prompts", "messages")


def _form(schema: dict[str, Any]) -> None:
    try:
        fields = mcp_forms.fields_of("Well?", schema)
    except ValueError as error:
        _is_sentence(error, 1_000)
        return
    mcp_forms.wire_values(fields, {field.name: field.default for field in fields if field.default is not None})


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


# --- sessions ---------------------------------------------------------------------------------------------------------


def session_file(data: bytes) -> None:
    """A file is refused in a sentence, or its session can be read, exported and imported again."""
    store = MemoryStore(FixedClock())
    try:
        row = import_lines(store, io.BytesIO(data), "it")
    except InvalidRequestError as error:
        _is_sentence(error, 500)
        return
    exported = b"".join(export_lines(store, row.session_id))
    again = import_lines(store, io.BytesIO(exported), "it", SessionId("ses_again"))
    assert again.events == row.events
    fold = ViewFold()
    for event in store.load(row.session_id):
        fold.apply(event)


def foreign(data: bytes) -> None:
    """A conversation is refused in a sentence, or becomes events that can be stored and shown to a model."""
    writer = Writer(Minter(FixedClock(), CountingEntropy()), "/work", 1_000.0)
    try:
        _, imported = read_foreign(data, "log", writer)
    except InvalidRequestError as error:
        _is_sentence(error, 1_000)
        return
    fold = ViewFold()
    for event in imported.events:
        assert decode_event(encode_event(event)) == event
        fold.apply(event)
    assert all(isinstance(line, str) for line in imported.report.lines())


# --- workers ----------------------------------------------------------------------------------------------------------


def worker_frames(data: bytes) -> None:
    """Bytes of a worker, a keeper or a zygote are messages, or a violation of the protocol; pieces do not matter."""
    cut = data[0] % len(data) if data else 0
    bodies = _bodies(data)
    assert _bodies(data[:cut], data[cut:]) == bodies
    reader = MessageReader(NO_SECRETS)
    readers = (reader.message, reader.checkpoint_message, framing.from_zygote, framing.from_keeper, _event)
    for body in [*bodies, data[1:]]:
        for read in readers:
            try:
                read(body)
            except framing.ProtocolError as error:
                _is_sentence(error)


def _event(body: bytes) -> None:
    MessageReader(NO_SECRETS).events((body,))


def _bodies(*pieces: bytes) -> list[bytes]:
    buffer, found = framing.FrameBuffer(), list[bytes]()
    for piece in pieces:
        buffer.feed(piece)
        try:
            while (body := buffer.next()) is not None:
                found.append(body)
        except framing.ProtocolError:
            break  # a connection ends here
    return found


# --- files ------------------------------------------------------------------------------------------------------------


def diffs(data: bytes) -> None:
    """A diff leads from one text to the other, and can be shown."""
    before, _, after = data.decode("utf-8", "replace").partition("\0")
    old, new = before.splitlines(), after.splitlines()
    codes = opcodes(old, new)
    made: list[str] = []
    at = (0, 0)
    for code in codes:
        assert at == (code.i1, code.j1), codes
        at = (code.i2, code.j2)
        if code.tag == "equal":
            assert old[code.i1 : code.i2] == new[code.j1 : code.j2], codes
        made += old[code.i1 : code.i2] if code.tag == "equal" else new[code.j1 : code.j2]
    assert at == (len(old), len(new)), codes
    assert made == new
    for hunk in hunks(codes, 2):
        heading_of(old, hunk[0].i1, hunk[0].i1)
        assert all("\n" not in line for line in hunk_lines(hunk, old, new, 40))
    changes = (TextChange(line=1, old=before, new=after),)
    unseen_changes(changes)
    change_size(changes)
    within(changes, "cut", 100)


_PATHS: Final = ("a", "a/", "a/b", "a/b/c.txt", "é", "*", "[", "\\", "a\nb", "!a", "x" * 300, "a/" * 30 + "b")


def gitignore(data: bytes) -> None:
    """Any ignore file and any glob can be read, and match quickly."""
    directory = _directory()
    (directory / ".gitignore").write_bytes(data)
    rules = IgnoreFiles(in_repository=True).within(str(directory))
    for path in _PATHS:
        name = path.rstrip("/").rpartition("/")[2] + ("/" if path.endswith("/") else "")
        assert rules.leave_out(path, name) in (True, False)
    for line in data.decode("utf-8", "surrogateescape").split("\n")[:4]:
        try:
            globs.read_glob(line)
        except ValueError as error:
            _is_sentence(error, 10 * globs.MAX_CHARS)


@cache
def _directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="rewindow-fuzz-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    (directory / ".git").mkdir()
    return directory


def ripgrep(data: bytes) -> None:
    """The output of a search is read, however it ends; counting agrees with reading."""
    for file in commands.read_files(data):
        found = file.read(lambda lines: lines)
        assert file.count() == len(found.matches), file
        assert set(found.matches) <= set(found.lines), file
        assert all(len(text) <= commands.LINE_CHARS for text in found.lines.values()), file
    assert all("\0" not in name for name in commands.read_names(data))
    complaints = commands.read_complaints(data)
    assert all(reason for _, reason in complaints.unreadable)


TARGETS: Final[dict[str, Target]] = {
    each.name: each
    for each in (
        Target("jsonrpc", "lines", jsonrpc, ("acp_adapter.jsonrpc.lines", "acp_adapter.jsonrpc.messages"), 30),
        Target("mcp-params", "json", mcp_params, ("mcp_tools.tools.schema", "mcp_tools.resources"), 30),
        Target("session-file", "lines", session_file, ("engine.cli.transfer.jsonl", "engine.log.events.codec"), 30),
        Target(
            "schemas",
            "lines",
            schemas,
            ("engine.session.tools.mcp_listing", "engine.session.tools.mcp_prompts", "engine.session.tools.mcp_forms"),
            30,
        ),
        Target("acp-params", "json", acp_params, ("acp_adapter.v1", "acp_adapter.v2", "acp_adapter.wire")),
        Target(
            "foreign",
            "lines",
            foreign,
            tuple(
                f"engine.cli.transfer.{name}"
                for name in ("anthropic", "document", "messages", "openai", "openhands", "writer")
            ),
        ),
        Target(
            "worker-frames",
            "msgpack",
            worker_frames,
            ("engine.runtime.worker.framing", "engine.runtime.control_channel"),
        ),
        Target("diffs", "bytes", diffs, ("engine.core.diff",)),
        Target("gitignore", "bytes", gitignore, ("engine.files.search.ignore_files", "engine.files.search.globs")),
        Target("ripgrep", "bytes", ripgrep, ("engine.files.search.commands",)),
    )
}
