"""The HTML report: one file without external resources or scripts, in light and dark.

Each failure shows its quote, a sequence diagram of its transcript with the evidence marked, and the replay command. All
foreign text is escaped.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from html import escape
from typing import Final

from conformance.documents import DOCUMENTS, link, quote_text
from conformance.reports.terminal import (
    NON_DECIDING,
    Context,
    escape_unprintable,
    mark_text,
    outcome_counts,
    silence_notice,
)
from conformance.runner import Run
from conformance.suite import Result
from conformance.transcript import Transcript
from conformance.values import truncate

_CODE: Final = re.compile(r"`([^`]+)`")
_AROUND: Final = 12
"""Entries before and after the evidence that a diagram shows."""
_SHOWN: Final = 2000
_STYLE: Final = """\
:root { color-scheme: light dark; --line: light-dark(#d5d9de, #3a4048); --soft: light-dark(#f4f6f8, #22262b);
  --bad: light-dark(#b3261e, #ff8a80); --good: light-dark(#1b6e3c, #7bd69a);
  --warn: light-dark(#8a5a00, #ffcc80); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); padding: .6rem .8rem; border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; }
h2 code { font-size: 1em; } h2 small { font-weight: normal; opacity: .7; }
a { color: light-dark(#1a56b0, #8ab4f8); } td:first-child { white-space: nowrap; }
blockquote { border-left: 3px solid var(--line); margin: .8rem 0; padding: .1rem 1rem; }
section { border: 1px solid var(--line); border-radius: 8px; padding: .2rem 1.2rem 1rem; margin: 1.2rem 0; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .25rem .5rem; vertical-align: top;
  border-bottom: 1px solid var(--line); }
.fail, .not-tested { color: var(--bad); } .advice { color: var(--warn); } .pass { color: var(--good); }
.diagram { display: grid; grid-template-columns: 5rem 1fr; gap: .15rem .6rem; }
.diagram time { text-align: right; opacity: .7; font: 12px/1.9 ui-monospace, monospace; }
.diagram div { background: var(--soft); padding: .15rem .6rem; border-radius: 6px; overflow-wrap: anywhere; }
.diagram .client, .diagram .client-log { margin-right: 30%; }
.diagram .server, .diagram .server-log { margin-left: 30%; }
.diagram .mark { background: none; text-align: center; opacity: .7; }
.diagram .decisive { outline: 2px solid var(--bad); }
.diagram code { white-space: pre-wrap; }
.diagram b { font-weight: 600; margin-right: .5rem; }
"""
_SENDERS: Final = {
    "client": "client \N{RIGHTWARDS ARROW}",
    "client-log": "output",
    "server": "\N{LEFTWARDS ARROW} {server}",
    "server-log": "stderr",
}


def render(run: Run, context: Context) -> str:
    """Render the page."""
    return "\n".join(_lines(run, context)) + "\n"


def _lines(run: Run, context: Context) -> Iterator[str]:
    title = escape(run.suite.title)
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    yield '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
    yield f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
    if context.command:
        yield f"<pre>{_escape(shlex.join(context.command))}</pre>"
    if run.obstacle:
        yield f'<p class="fail"><strong>Not judged</strong>: {_escape(run.obstacle)}.</p></body></html>'
        return
    word, style = ("Not conformant", "fail") if run.violations else ("Conformant", "pass")
    ran = "" if run.saved else f", in {run.seconds:.1f} s"
    total = f"{outcome_counts(run.results)}, of {len(run.results)} requirements{ran}"
    yield f'<p><strong class="{style}">{word}</strong>: {total}.</p>'
    yield from _link_list("Violated:", run.violations)
    for result in run.violations:
        yield from _failure_section(result, run, context)
    for outcome, title in NON_DECIDING.items():
        results = [result for result in run.results if result.reported == outcome]
        yield from _link_list(f"{title}:", results)
        for result in results:
            yield from _failure_section(result, run, context)
    yield "<h2>All requirements</h2><table><tr><th>id<th>level<th>verdict<th></tr>"
    for result in run.results:
        row, verdict = result.requirement, result.verdict
        reason = f"<br><small>{_escape(verdict.reason)}</small>" if verdict.reason else ""
        yield f'<tr id="row-{row.id}"><td><code>{row.id}</code><td>{row.level}'
        yield f'<td class="{result.reported}">{result.reported}<td>{escape(row.text)}{reason}</tr>'
    yield "</table></body></html>"


def _link_list(title: str, results: list[Result]) -> Iterator[str]:
    """List these requirements with links to their sections."""
    if results:
        rows = [result.requirement for result in results]
        items = "".join(f'<li><a href="#{row.id}">{row.id}</a> {escape(row.text)}' for row in rows)
        yield f"<p>{title}</p><ul>{items}</ul>"


def _failure_section(result: Result, run: Run, context: Context) -> Iterator[str]:
    row, verdict = result.requirement, result.verdict
    yield f'<section id="{row.id}"><h2><code class="{result.reported}">{row.id}</code> <small>{row.level}</small></h2>'
    yield f"<p>{escape(row.text)} <strong>But {_escape(verdict.reason)}.</strong></p>"
    quote = _CODE.sub(r"<code>\1</code>", escape(quote_text(row.source), quote=False))
    yield f"<blockquote>{silence_notice(row)}{quote}<br><small>"
    place = f"{DOCUMENTS[row.source.document].title}, {row.source.place}"
    yield f'<a href="{escape(link(row.source))}">{escape(place)}</a></small></blockquote>'
    transcript = next((one for one in run.transcripts if one.scenario == verdict.scenario), None)
    if transcript is not None:
        yield f"<p>In the scenario <code>{escape(verdict.scenario)}</code>:</p>"
        yield from _diagram(transcript, verdict.evidence, run.suite.server)
    if verdict.scenario in context.replays:
        yield f"<p>Again:</p><pre>{_escape(context.replays[verdict.scenario])}</pre>"
    yield "</section>"


def _diagram(transcript: Transcript, evidence: tuple[int, ...], server: str) -> Iterator[str]:
    last = len(transcript.entries)
    around = (range(max(0, index - _AROUND), min(last, index + _AROUND)) for index in evidence or (last,))
    yield '<div class="diagram">'
    before: int | None = None
    for index in sorted({index for part in around for index in part}):
        if before is not None and index > before + 1:
            yield f'<time></time><div class="mark">{index - before - 1:,} entries omitted</div>'
        before = index
        entry = transcript.entries[index]
        style = f"{entry.kind} decisive" if index in evidence else entry.kind
        said = mark_text(entry) if entry.kind == "mark" else entry.data.decode(errors="replace").rstrip("\n")
        sender = f"<b>{_SENDERS[entry.kind].format(server=server)}</b>" if entry.kind in _SENDERS else ""
        yield f"<time>{entry.ms:.1f} ms</time>"
        yield f'<div class="{style}">{sender}<code>{_escape_lines(truncate(said, _SHOWN))}</code></div>'
    yield "</div>"


def _escape_lines(text: str) -> str:
    return "\n".join(_escape(line) for line in text.split("\n"))


def _escape(text: str) -> str:
    return escape(escape_unprintable(text))
