"""A prompt's tail, parsed from the text as it is sent: sections, entries of the feed, and diffs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from engine.context.tail.section_parts import EARLIER, EARLIER_ALONE, GROUPS, HANDLES, IN_RESULTS, NEW, PINS, PLAN
from engine.context.tail.sections import EXPANSIONS
from engine.context.tail.timeline import HEADING

_HEADINGS: Final = (HEADING, NEW, EARLIER, EARLIER_ALONE, HANDLES, GROUPS, IN_RESULTS, EXPANSIONS, PINS, PLAN)
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def sections(tail: str) -> dict[str, list[str]]:
    """The lines of each section by its heading; a heading that comes twice is an error."""
    found = dict[str, list[str]]()
    current = list[str]()
    for line in tail.splitlines():
        heading = next((each for each in _HEADINGS if line.startswith(each.rstrip("\n"))), None)
        if heading is None:
            current.append(line)
        else:
            assert heading not in found, f"{heading} stands twice"
            current = found[heading] = [line] if heading == IN_RESULTS else []
    return found


def entries(parts: Mapping[str, list[str]], names: Collection[str]) -> list[list[str]]:
    """Return the lines of each change in the feed, of handles with these names and of the namespace."""
    found = list[list[str]]()
    for line in (line for heading in (NEW, EARLIER, EARLIER_ALONE) for line in parts.get(heading, [])):
        name = line.partition(": ")[0]
        if name in names or name == "namespace" or re.fullmatch(r"(view|group)-[\d.]+", name):
            found.append([line])
        else:
            found[-1].append(line)
    return found


def applied(base: Sequence[str], diff: Sequence[str]) -> list[str] | None:
    """The lines after the hunks of a diff; None if it does not apply."""
    result, at = list[str](), 0
    for line in diff:
        if match := _HUNK.match(line):
            start = int(match[1]) - (match[2] != "0")
            result, at = [*result, *base[at:start]], start
        elif line.startswith("+"):
            result.append(line[1:])
        elif at < len(base) and base[at] == line[1:]:
            result, at = [*result, line[1:]] if line[0] == " " else result, at + 1
        else:
            return None
    return [*result, *base[at:]]
