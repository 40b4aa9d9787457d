"""Judges of bytes, for any protocol of JSON messages on lines: what a program writes, and how it ends.

Each is told whose bytes it is about: the server's, unless a suite for clients says otherwise.
"""

from __future__ import annotations

import json
from typing import Final

from conformance.traffic import Sender, Traffic, places
from conformance.transcript import LONGEST_LINE
from conformance.values import as_object, cut, cut_bytes, is_list, is_object
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

_HALVES: Final = (b"\\ud8", b"\\ud9", b"\\uda", b"\\udb", b"\\udc", b"\\udd", b"\\ude", b"\\udf")
_SHOWN: Final = 60
_LINES: Final = 3
"""Malformed lines that are shown."""
_SILENT: Final = "the program wrote nothing"


def messages_only(traffic: Traffic, side: Sender = "server") -> Verdict:
    """Each line of standard output is a JSON object; an array answers an array, which earlier versions had."""
    lines = list(traffic.sent(side))
    batches = any(is_list(message.value) for message in traffic.messages if message.sender != side)
    for message in lines:
        if message.ended and _is_utf8(message.line) and not message.object and not (batches and is_list(message.value)):
            shown = cut(message.line.decode(), _SHOWN)
            return failed(f"a line holds {shown!r}, which is no message", message.index)
        if not message.ended and len(message.line) > LONGEST_LINE:
            return failed(f"a line of more than {LONGEST_LINE >> 20} MiB has no end", message.index)
    return PASS if lines else not_tested(_SILENT)


def utf8(traffic: Traffic, side: Sender = "server") -> Verdict:
    """Each line of standard output is UTF-8."""
    lines = list(traffic.sent(side))
    for message in lines:
        if not _is_utf8(message.line):
            return failed(f"a line is not UTF-8: {cut_bytes(message.line, _SHOWN)!r}", message.index)
    return PASS if lines else not_tested(_SILENT)


def newline_at_end(traffic: Traffic, side: Sender = "server") -> Verdict:
    """The last message has a newline after it, unless the program was killed."""
    endings = [entry.value for entry in traffic.marks("ended")]
    if any(is_object(ending) and ending.get("by") in ("SIGTERM", "SIGKILL") for ending in endings):
        return skipped("the program was killed, perhaps in the middle of a line")
    lines = list(traffic.sent(side))
    for message in lines:
        if not message.ended:
            return failed("the last message has no newline after it", message.index)
    return PASS if lines else not_tested(_SILENT)


def whole_characters(traffic: Traffic, side: Sender = "server") -> Verdict:
    """No string holds an escaped half of a surrogate pair."""
    lines = list(traffic.sent(side))
    for message in lines:
        lowered = message.line.lower()
        if message.object and any(half in lowered for half in _HALVES):
            try:
                json.dumps(message.value, ensure_ascii=False).encode()
            except UnicodeEncodeError:
                return failed("a string holds half of a surrogate pair, which many parsers refuse", message.index)
    return PASS if lines else not_tested(_SILENT)


def malformed_answered(traffic: Traffic, side: Sender = "server") -> Verdict:
    """Of the lines under the mark `malformed`, one is answered with -32700 or -32600 without an id."""
    if not traffic.marks("malformed"):
        return not_tested("the lines were not sent")
    for message in traffic.sent(side):
        if message.is_response and message.id is None and message.error.get("code") in (-32700, -32600):
            return PASS
    sent = [message.index for message in traffic.messages if message.sender != side and not message.object]
    return failed("no malformed line was answered with -32700 or -32600 and a null id", *sent[:_LINES])


def closed_in_time(traffic: Traffic) -> Verdict:
    """The program exits soon when its input ends: the mark `closed-in-time` says so."""
    for entry in traffic.marks("closed-in-time"):
        if entry.value is True:
            return PASS
        shown = [*places(traffic, "input-closed"), *places(traffic, "closed-in-time"), *places(traffic, "ended")]
        return failed("three seconds after the end of its input the program still ran", *shown)
    return not_tested("the input was not ended")


def left_nothing(traffic: Traffic) -> Verdict:
    """No process that the program started is left when it has ended, each time that it was started."""
    said = [as_object(entry.value).get("left") for entry in traffic.marks("ended")]
    counts = [count for count in said if isinstance(count, int)]
    if not counts:
        return skipped("the transcript does not say what the program left behind")
    if left := max(counts):
        return failed(
            f"{left} processes that the program started were left when it had ended", *places(traffic, "ended")
        )
    return PASS


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
