"""The report for people in a terminal: what was violated, why, by which lines, and how to see it again."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from conformance.documents import DOCUMENTS, OFFICIAL, link, readable
from conformance.requirement import Requirement
from conformance.suite import STANDINGS, Result, Standing
from conformance.transcript import Entry, Transcript
from conformance.values import at, cut

if TYPE_CHECKING:
    from conformance.reports.context import Context
    from conformance.runner import Run

UNDECIDING: Final[dict[Standing, str]] = {
    "advice": "Advice, which does not decide: the specification says SHOULD, or states a fact",
    "note": "Notes, which do not decide either",
}
"""Titles of what does not decide, by how it stands."""
_SILENT: Final = "The specification does not say so. The nearest sentence: "
_WIDTH: Final = 110
_SHOWN: Final = 240
"""Characters of an entry that are shown."""
_SENDERS: Final = {
    "client": "client >",
    "client-log": "output  ",
    "server": "       <",
    "server-log": "stderr  ",
    "mark": "        ",
}

_PRINTED: Final = 10
"""Lines of standard error that are shown of a program that was not judged."""
_LOOKED_AT: Final = 64 * 1024
"""Bytes of the end of a log in which these lines are looked for."""
_LAST: Final = 3
"""Lines of standard error that are shown of a program that ended in a scenario."""


def render(run: Run, context: Context, *, verbose: bool = False, color: bool = False) -> str:
    """The whole report."""
    return "\n".join(_lines(run, context, verbose=verbose, color=color)) + "\n"


def _lines(run: Run, context: Context, *, verbose: bool, color: bool) -> Iterator[str]:
    named = f": {visible(shlex.join(context.command))}" if context.command else ""
    yield f"{run.suite.title}{named}"
    if run.obstacle:
        yield from _obstacle(run)
        return
    transcripts = {transcript.scenario: transcript for transcript in run.transcripts}
    violations = run.violations
    for result in violations:
        yield ""
        yield from shown(result, transcripts, context, color=color)
    for standing, title in UNDECIDING.items():
        for number, result in enumerate(one for one in run.results if one.standing == standing):
            if not number:
                yield ""
                yield f"{title}:"
            yield ""
            yield from shown(result, transcripts, context)
    if verbose:
        yield ""
        yield from _listed(run.results)
    yield ""
    yield from _summary(run, violations, color=color)


def _obstacle(run: Run) -> Iterator[str]:
    yield ""
    yield f"Not judged: {visible(run.obstacle)}."
    for transcript in run.transcripts[:1]:
        yield from (f"  it printed: {line}" for line in printed(transcript))


def printed(transcript: Transcript) -> Iterator[str]:
    """The last lines that a program wrote to standard error."""
    parts: list[bytes] = []
    size = 0
    for entry in reversed(transcript.entries):
        if size > _LOOKED_AT:
            break
        if entry.kind.endswith("-log"):
            parts.append(entry.data[-_LOOKED_AT:])
            size += len(parts[-1])
    for line in b"".join(reversed(parts)).decode(errors="replace").splitlines()[-_PRINTED:]:
        yield cut(visible(cut(line, _SHOWN)), _SHOWN)


def shown(
    result: Result, transcripts: Mapping[str, Transcript], context: Context, *, color: bool = False
) -> Iterator[str]:
    """What is shown of a failure: the requirement, why, the quote, the lines that show it, and how to repeat it."""
    row, verdict = result.requirement, result.verdict
    word = result.standing.upper().replace("-", " ")
    yield f"{_red(word, color=color)} {row.id} ({row.level})"
    yield _wrapped(row.text)
    yield _wrapped(f"but {visible(verdict.reason)}")
    yield _wrapped(cited(row))
    yield f"    {DOCUMENTS[row.source.document].title}, {row.source.place}: {link(row.source)}"
    transcript = transcripts.get(verdict.scenario)
    if transcript is not None:
        yield f"    in the scenario {verdict.scenario}:" if verdict.scenario else "    in this traffic:"
        yield from (f"      {line}" for line in shown_entries(transcript, verdict.evidence))
        yield from (f"      {line}" for line in _unasked_end(transcript))
    if verdict.scenario in context.replays:
        yield f"    again: {context.replays[verdict.scenario]}"


def cited(row: Requirement) -> str:
    """The quote; where it does not say what the requirement does, that it does not."""
    return f"{silence(row)}{readable(row.source)}"


def silence(row: Requirement) -> str:
    """What stands before a quote that is only near; the official suite's own words are not the specification's."""
    return _SILENT if row.level == "informational" and row.source.document != OFFICIAL else ""


def _unasked_end(transcript: Transcript) -> Iterator[str]:
    """That a program failed while it was wanted, and the last that it printed."""
    marks = {entry.label: entry.value for entry in transcript.entries if entry.kind == "mark"}
    ended = marks.get("ended")
    if "input-closed" not in marks and at(ended, "by") == "by itself" and at(ended, "code"):
        yield f"the program ended by itself, with status {at(ended, 'code')}"
        yield from (f"  it printed: {line}" for line in list(printed(transcript))[-_LAST:])


def shown_entries(transcript: Transcript, evidence: Iterable[int]) -> Iterator[str]:
    """The entries that a verdict is about, one on a line, with their moments."""
    for index in dict.fromkeys(evidence):
        entry = transcript.entries[index]
        data = _lines_of(transcript, index).rstrip(b"\r\n")[: 8 * _SHOWN]
        text = noted(entry) if entry.kind == "mark" else visible(data.decode(errors="replace"))
        more = " ..." if len(text) > _SHOWN else ""
        yield f"{entry.ms:9.1f} ms {_SENDERS[entry.kind]} {text[:_SHOWN]}{more}"


def noted(entry: Entry) -> str:
    """A mark, as reports show it: what it says, and about what."""
    value = "" if entry.value is None else f" {json.dumps(entry.value)}"
    return visible(f"[{entry.label}{value}]")


def _lines_of(transcript: Transcript, index: int) -> bytes:
    """What an entry holds, behind what was sent before of the line that it goes on with."""
    entry = transcript.entries[index]
    parts = [entry.data]
    for earlier in reversed(transcript.entries[:index]):
        if earlier.kind == entry.kind:
            before = earlier.data.rpartition(b"\n")[2]
            parts.append(before)
            if len(before) < len(earlier.data):
                break
    return b"".join(reversed(parts))


def _listed(results: Iterable[Result]) -> Iterator[str]:
    for result in results:
        reason = f" ({visible(result.verdict.reason)})" if result.verdict.reason else ""
        yield f"  {result.standing:10} {result.requirement.id:20} {result.requirement.text}{reason}"


def _summary(run: Run, violations: list[Result], *, color: bool) -> Iterator[str]:
    count = len(run.transcripts)
    ran = f"; {count} scenario{'' if count == 1 else 's'} in {run.seconds:.1f} s" if not run.saved else ""
    yield f"{_number(run.results)}: {counted(run.results)}{ran}"
    if violations:
        yield _red(f"Not conformant: {_number(violations)} violated.", color=color)
    else:
        yield "Conformant."


def counted(results: Iterable[Result]) -> str:
    """How many requirements stand how."""
    counts = Counter(result.standing for result in results)
    return ", ".join(f"{counts[standing]} {standing}" for standing in STANDINGS)


def _number(results: list[Result]) -> str:
    return f"{len(results)} requirement{'' if len(results) == 1 else 's'}"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")


def _red(text: str, *, color: bool) -> str:
    return f"\x1b[31;1m{text}\x1b[0m" if color else text


def visible(text: str) -> str:
    """Text of a foreign program that cannot act on a terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
