"""The terminal report: what was violated, why, by which lines, and how to repeat it."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from conformance.documents import DOCUMENTS, OFFICIAL, link, quote_text
from conformance.judging import Requirement
from conformance.runner import Run
from conformance.suite import REPORTED_OUTCOMES, ReportedOutcome, Result
from conformance.transcript import Entry, Transcript
from conformance.values import at, truncate


@dataclass(frozen=True, slots=True)
class Context:
    """The command of a run, and how to repeat its scenarios."""

    command: list[str]
    replays: Mapping[str, str] = field(default_factory=dict[str, str])
    """Replay commands, by scenario."""


# --- the report -------------------------------------------------------------------------------------------------------


NON_DECIDING: Final[dict[ReportedOutcome, str]] = {
    "advice": "Advice, which does not decide the verdict: the specification says SHOULD, or states a fact",
    "note": "Notes, which do not decide the verdict",
}
"""Headings for outcomes that do not decide."""
_SILENT: Final = "The specification does not state this. The nearest sentence: "
_WIDTH: Final = 110
_ENTRY_LENGTH: Final = 240
"""Characters of an entry."""
_SENDERS: Final = {
    "client": "client >",
    "client-log": "output  ",
    "server": "       <",
    "server-log": "stderr  ",
    "mark": "        ",
}

_LOG_LINES: Final = 10
"""Log lines of a program that was not judged."""
_LOG_BYTES: Final = 64 * 1024
"""Bytes at the end of a log that are searched for these lines."""
_EXIT_LOG_LINES: Final = 3
"""Log lines of a program that ended during a scenario."""


def render(run: Run, context: Context, *, verbose: bool = False, color: bool = False) -> str:
    """Render the report."""
    return "\n".join(_lines(run, context, verbose=verbose, color=color)) + "\n"


def _lines(run: Run, context: Context, *, verbose: bool, color: bool) -> Iterator[str]:
    named = f": {escape_unprintable(shlex.join(context.command))}" if context.command else ""
    yield f"{run.suite.title}{named}"
    if run.obstacle:
        yield from _obstacle_lines(run)
        return
    transcripts = {transcript.scenario: transcript for transcript in run.transcripts}
    violations = run.violations
    for result in violations:
        yield ""
        yield from failure_lines(result, transcripts, context, color=color)
    for outcome, title in NON_DECIDING.items():
        for number, result in enumerate(one for one in run.results if one.reported == outcome):
            if not number:
                yield ""
                yield f"{title}:"
            yield ""
            yield from failure_lines(result, transcripts, context)
    if verbose:
        yield ""
        yield from _result_lines(run.results)
    yield ""
    yield from _summary(run, violations, color=color)


def _obstacle_lines(run: Run) -> Iterator[str]:
    yield ""
    yield f"Not judged: {escape_unprintable(run.obstacle)}."
    for transcript in run.transcripts[:1]:
        yield from (f"  it printed: {line}" for line in last_log_lines(transcript))


def last_log_lines(transcript: Transcript) -> Iterator[str]:
    """Yield the last lines of a program's standard error."""
    parts: list[bytes] = []
    size = 0
    for entry in reversed(transcript.entries):
        if size > _LOG_BYTES:
            break
        if entry.kind.endswith("-log"):
            parts.append(entry.data[-_LOG_BYTES:])
            size += len(parts[-1])
    for line in b"".join(reversed(parts)).decode(errors="replace").splitlines()[-_LOG_LINES:]:
        yield truncate(escape_unprintable(truncate(line, _ENTRY_LENGTH)), _ENTRY_LENGTH)


def failure_lines(
    result: Result, transcripts: Mapping[str, Transcript], context: Context, *, color: bool = False
) -> Iterator[str]:
    """Describe a failure: the requirement, the reason, the quote, the evidence, and the replay command."""
    row, verdict = result.requirement, result.verdict
    word = result.reported.upper().replace("-", " ")
    yield f"{_red(word, color=color)} {row.id} ({row.level})"
    yield _wrapped(row.text)
    yield _wrapped(f"but {escape_unprintable(verdict.reason)}")
    yield _wrapped(quote_with_notice(row))
    yield f"    {DOCUMENTS[row.source.document].title}, {row.source.place}: {link(row.source)}"
    transcript = transcripts.get(verdict.scenario)
    if transcript is not None:
        yield f"    in the scenario {verdict.scenario}:" if verdict.scenario else "    in this traffic:"
        yield from (f"      {line}" for line in entry_lines(transcript, verdict.evidence))
        yield from (f"      {line}" for line in _unexpected_exit(transcript))
    if verdict.scenario in context.replays:
        yield f"    again: {context.replays[verdict.scenario]}"


def quote_with_notice(row: Requirement) -> str:
    """Return the quote, with a notice if it does not state the requirement."""
    return f"{silence_notice(row)}{quote_text(row.source)}"


def silence_notice(row: Requirement) -> str:
    """Return the notice before a quote that is only the nearest one. The official suite's texts are not quotes."""
    return _SILENT if row.level == "informational" and row.source.document != OFFICIAL else ""


def _unexpected_exit(transcript: Transcript) -> Iterator[str]:
    """Report an unexpected exit with an error, and the last log lines."""
    marks = {entry.label: entry.value for entry in transcript.entries if entry.kind == "mark"}
    ended = marks.get("ended")
    if "input-closed" not in marks and at(ended, "by") == "by itself" and at(ended, "code"):
        yield f"the program exited with status {at(ended, 'code')}"
        yield from (f"  it printed: {line}" for line in list(last_log_lines(transcript))[-_EXIT_LOG_LINES:])


def entry_lines(transcript: Transcript, evidence: Iterable[int]) -> Iterator[str]:
    """Yield the entries of a verdict, one per line, with their times."""
    for index in dict.fromkeys(evidence):
        entry = transcript.entries[index]
        data = _whole_line(transcript, index).rstrip(b"\r\n")[: 8 * _ENTRY_LENGTH]
        text = mark_text(entry) if entry.kind == "mark" else escape_unprintable(data.decode(errors="replace"))
        yield f"{entry.ms:9.1f} ms {_SENDERS[entry.kind]} {truncate(text, _ENTRY_LENGTH)}"


def mark_text(entry: Entry) -> str:
    """Format a mark with its value."""
    value = "" if entry.value is None else f" {json.dumps(entry.value)}"
    return escape_unprintable(f"[{entry.label}{value}]")


def _whole_line(transcript: Transcript, index: int) -> bytes:
    """Return an entry's data, preceded by the start of the line that it continues."""
    entry = transcript.entries[index]
    parts = [entry.data]
    for earlier in reversed(transcript.entries[:index]):
        if earlier.kind == entry.kind:
            before = earlier.data.rpartition(b"\n")[2]
            parts.append(before)
            if len(before) < len(earlier.data):
                break
    return b"".join(reversed(parts))


def _result_lines(results: Iterable[Result]) -> Iterator[str]:
    for result in results:
        reason = f" ({escape_unprintable(result.verdict.reason)})" if result.verdict.reason else ""
        yield f"  {result.reported:10} {result.requirement.id:20} {result.requirement.text}{reason}"


def _summary(run: Run, violations: list[Result], *, color: bool) -> Iterator[str]:
    count = len(run.transcripts)
    ran = f"; {count} scenario{'' if count == 1 else 's'} in {run.seconds:.1f} s" if not run.saved else ""
    yield f"{_requirement_count(run.results)}: {outcome_counts(run.results)}{ran}"
    if violations:
        yield _red(f"Not conformant: {_requirement_count(violations)} violated.", color=color)
    else:
        yield "Conformant."


def outcome_counts(results: Iterable[Result]) -> str:
    """Format the number of requirements of each outcome."""
    counts = Counter(result.reported for result in results)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in REPORTED_OUTCOMES)


def _requirement_count(results: list[Result]) -> str:
    return f"{len(results)} requirement{'' if len(results) == 1 else 's'}"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")


def _red(text: str, *, color: bool) -> str:
    return f"\x1b[31;1m{text}\x1b[0m" if color else text


def escape_unprintable(text: str) -> str:
    """Escape control characters of foreign text."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
