"""What a block in a text is, once more: over the whole text, line by line, as the rules say it and however slowly."""

from __future__ import annotations

import re
from typing import Final

LONGEST_TAG: Final = 128
_ATTRIBUTE: Final = re.compile(r"""\s+([A-Za-z_:][\w:-]*)(?:\s*=\s*("[^"<]*"|'[^'<]*'|[^\s"'<>=`]+))?""")
_CLOSE: Final = re.compile(r"</script\s{0,16}>", re.IGNORECASE)


def block_in(text: str) -> tuple[str, str | None, bool]:
    """The text before the first block, its cell, and whether something follows; all of the text where there is none."""
    for found in re.finditer("<script", text, re.IGNORECASE):
        at = found.start()
        end = None if _is_quoted(text, at) else _end_of_tag(text, at)
        if end is not None:
            closing = _close_of(text[end:])
            if closing is None:
                break
            source = re.sub(r"\A[ \t]*\r?\n", "", text[end : end + closing.start()])
            return text[:at], source, bool(text[end + closing.end() :].strip())
    return text, None, False


def _end_of_tag(text: str, at: int) -> int | None:
    attributes: dict[str, str] = {}
    end = at + len("<script")
    while found := _ATTRIBUTE.match(text, end):
        if found[2] is not None:
            attributes.setdefault(found[1].lower(), found[2].strip("\"'").strip().lower())
        end = found.end()
    end += len(text[end:]) - len(text[end:].lstrip())
    is_tag = text[end : end + 1] == ">" and end + 1 - at <= LONGEST_TAG
    return end + 1 if is_tag and attributes.get("type") == "text/x-python" else None


def _is_quoted(text: str, at: int) -> bool:
    begun = re.match(r"[ \t\r\n]*<think>", text, re.IGNORECASE)
    if begun is not None:
        ended = re.compile("</think>", re.IGNORECASE).search(text, begun.end())
        if ended is None or at < ended.start():
            return True
        # What stands on the line of the mark is not at the beginning of a line.
        text, at = f".{text[ended.end() :]}", at - ended.end() + 1
    *lines, last = text[:at].split("\n")
    fence, quotations = "", 0
    for line in lines:
        marks, rest = _marks_and_rest(line)
        opened = re.match(r"`{3,}(?!.*`)|~{3,}", rest)
        if fence:
            closed = re.fullmatch(r"([> \t\r]*?)(`+|~+)[ \t\r]*", line)
            if closed and closed[1].count(">") == quotations and closed[2].startswith(fence):
                fence = ""
        elif opened:
            fence, quotations = opened[0], marks.count(">")
    if fence or _marks_and_rest(last)[1].startswith("~~~"):
        return True
    span = 0
    for run in re.findall("`+", last):
        span = len(run) if not span else 0 if len(run) == span else span
    return span > 0


def _marks_and_rest(line: str) -> tuple[str, str]:
    """The marks of quotations and items of lists that a line begins with, at most 64 characters, and what follows."""
    rest = line.lstrip()
    while mark := re.match(r">|(?:[-*+]|[0-9]{1,9}[.)])\s", rest):
        rest = rest[mark.end() :].lstrip()
    marks = line[: len(line) - len(rest)]
    return (marks, rest) if len(marks) <= 64 else ("", line)


def _close_of(text: str) -> re.Match[str] | None:
    within, at = "", 0
    while at < len(text):
        step = 1
        if within in ("", "#"):
            if found := _CLOSE.match(text, at):
                return found
            if within == "#":
                within = "" if text[at] == "\n" else "#"
            elif text[at] in "\"'#":
                within = text[at] * (3 if text[at] != "#" and text.startswith(text[at] * 3, at) else 1)
                step = len(within)
        elif text[at] == "\\":
            step = 3 if text.startswith("\\\r\n", at) else 2
        elif text.startswith(within, at):
            step, within = len(within), ""
        elif text[at] == "\n" and len(within) == 1:
            within = ""
        at += step
    return _CLOSE.search(text)
