"""The page of a session in a headless Chromium: until it can be used, until it shows an event, and its costs.

The browser is that of `tests/page`; without its packages there are no rows. Sessions are made by `programs/pages.py`,
and served by `rewindow page` or by the agent itself, after `/page`. What is timed is one browser on one machine, which
the browser, the server and this program share: the quickest of several rounds is kept, and the load is told beside it.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.clients import Client, held, worked
from benchmarks.environments import OURS, measured
from benchmarks.measuring import Setting, duration, script
from benchmarks.report import Row
from engine.core.clock import SystemClock
from engine.core.ids import SessionId
from engine.log.events.execution import ExecutionFinished, StatementRecorded
from engine.log.redaction import NO_SECRETS
from engine.log.store import DATABASE
from engine.log.store.sqlite import SqliteStore
from session_page.file import write_file
from tests.support.browser import HOME, Browser, browser

USABLE: Final = {200: 0.300, 10_000: 1.0}
"""Seconds until a page with so many statements can be used, from the first byte on."""
SHOWN: Final = 0.100
SHOWN_ELSEWHERE: Final = 0.500
ADDED: Final = 0.05
MEMORY: Final = 20e6
FRAME: Final = 1 / 60
LONG_TASK: Final = 0.050
"""A task that takes longer can be noticed: what browsers call a long task."""
ROUNDS: Final = 7
EVENTS: Final = 20
TURNS: Final = 100
WAIT: Final = 0.2
ROW: Final = "#timeline-list .row"
MISSING: Final = "missing: tests/page/node_modules is not installed"
_ADDRESS: Final = re.compile(r"http://\S+")
_SEEN: Final = """
window.seen = {};
new MutationObserver(() => {
  for (const row of document.querySelectorAll("#timeline-list .row-statement")) {
    const name = row.querySelector(".source").textContent;
    if (row.querySelector(".status-ok")) window.seen[name] ??= (performance.timeOrigin + performance.now()) / 1000;
  }
}).observe(document.body, { childList: true, subtree: true, attributes: true, characterData: true });
"""


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """One row per bar."""
    if not (HOME / "node_modules").exists():
        return [Row(name="the page in a browser", ours=MISSING)]
    with tempfile.TemporaryDirectory() as directory, browser(patience=120) as tab:
        place = Path(directory)
        rows: list[Row] = []
        for count, bar in USABLE.items():
            rows += _usable(place, tab, setting.size(count), bar, setting)
        return [*rows, *_shown(place, tab, setting), *_costs(place, tab, setting)]


# --- until a page can be used -----------------------------------------------------------------------------------------


def _usable(place: Path, tab: Browser, count: int, bar: float, setting: Setting) -> list[Row]:
    state, name = place / f"usable-{count}", SessionId(f"ses_{count:024d}")
    subprocess.run(
        [sys.executable, script("pages.py"), str(state / DATABASE), name, str(count)], check=True, env=measured()
    )
    rounds = setting.rounds(ROUNDS)
    with _command(state, name) as (address, _):
        first = _opened(tab, address)
        served = [_opened(tab, address) for _ in range(rounds)]
        scrolled = min((_scrolled(tab) for _ in range(2 if setting.quick else 3)), key=lambda each: each["longest"])
    with closing(SqliteStore(state / DATABASE, SystemClock())) as store:
        written = place / f"{name}.html"
        write_file(str(written), name, store.load(name), store.blob_get, NO_SECRETS, 1.0)
    files = [_opened(tab, written.as_uri()) for _ in range(rounds)]
    what = f"page of {count:,} statements"
    return [
        _least(f"{what}: from the first byte until it can be used", served, bar, setting),
        Row(
            name=f"{what}: the first time, while its server reads the session",
            ours=duration(first["usable"]),
            peer=_loaded(first["busy"]),
        ),
        _least(f"{what} as a file of {written.stat().st_size / 1e6:.1f} MB: until it can be used", files, bar, setting),
        Row(
            name=f"{what}: a frame while it is scrolled from end to end, on the main thread",
            ours=duration(scrolled["frame"]),
            peer=f"the longest task of {scrolled['frames'] * 1000:.0f} frames: {_long(scrolled['longest'])}",
            bar=f"<= {duration(FRAME)}, and no task of {duration(LONG_TASK)}",
            met=(scrolled["frame"] <= FRAME and scrolled["longest"] < LONG_TASK) or setting.quick,
        ),
    ]


def _opened(tab: Browser, address: str) -> dict[str, float]:
    found: Mapping[str, float] = tab.command("measure", url=address, target=ROW)
    return {name: ms / 1000 for name, ms in found.items()}


def _scrolled(tab: Browser) -> dict[str, float]:
    found: Mapping[str, float] = tab.command("scroll", target="#timeline-list")
    return {name: ms / 1000 for name, ms in found.items()}


def _long(seconds: float) -> str:
    return duration(seconds) if seconds else f"less than {duration(LONG_TASK)}"


def _least(name: str, found: list[dict[str, float]], bar: float, setting: Setting) -> Row:
    best = min(found, key=lambda each: each["usable"])
    return Row(
        name=name,
        ours=duration(best["usable"]),
        peer=_loaded(best["busy"]),
        bar=f"<= {duration(bar)}",
        met=best["usable"] <= bar or setting.quick,
    )


def _loaded(busy: float) -> str:
    return f"the browser's main thread: {duration(busy)}; load of the machine: {os.getloadavg()[0]:.1f}"


@contextmanager
def _command(state: Path, session: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`rewindow page`, and the address that it printed."""
    program = str(Path(OURS.agent).with_name("rewindow"))
    environment = {**measured(), "REWINDOW_STATE_DIR": str(state)}
    command = [program, "page", "--no-browser", *([session] if session else [])]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        found = _ADDRESS.search(process.stderr.readline())
        assert found is not None
        try:
            yield found[0], process
        finally:
            process.terminate()


# --- until an event is shown ------------------------------------------------------------------------------------------


def _shown(place: Path, tab: Browser, setting: Setting) -> list[Row]:
    """The agent's own page, and that of `rewindow page` while the agent has the session."""
    state, count = place / "shown", setting.rounds(EVENTS)
    with _agent(state, place) as client:
        session = client.open()
        client.prompt(session, "'first'")
        client.prompt(session, "'second'")
        here = _delays(tab, client, session, _page(client, session), state, count, "here")
        with _command(state, session) as (address, _):
            elsewhere = _delays(tab, client, session, address, state, count, "elsewhere")
        tab.command("leave")
    return [
        _delay("from the commit of a result until the page of the agent shows it", here, SHOWN, setting),
        _delay("the same on the page of another process", elsewhere, SHOWN_ELSEWHERE, setting),
    ]


def _delay(name: str, found: list[float], bar: float, setting: Setting) -> Row:
    middle = statistics.median(found)
    return Row(
        name=f"{name}, median of {len(found)}",
        ours=duration(middle),
        peer=f"{duration(min(found))} to {duration(max(found))}; load of the machine: {os.getloadavg()[0]:.1f}",
        bar=f"<= {duration(bar)}",
        met=middle <= bar or setting.quick,
    )


def _delays(
    tab: Browser, client: Client, session: str, address: str, state: Path, count: int, word: str
) -> list[float]:
    tab.command("open", url=address)
    tab.command("wait", target=".activity:has-text('live'), .activity:has-text('read only')")
    tab.command("evaluate", expression="document.querySelector('#timeline-list').scrollTop = 1e9")
    tab.command("evaluate", expression=f"(() => {{ {_SEEN} }})()")
    for number in range(count):
        client.prompt(session, f"'{word} {number}'")
        tab.command("wait", target=f"{ROW}:has-text(\"'{word} {number}'\") .status-ok")
    seen: Mapping[str, float] = tab.command("evaluate", expression="window.seen")
    with closing(SqliteStore(state / DATABASE, SystemClock())) as store:
        events = store.load(SessionId(session))
    sources = {each.statement_id: each.source for each in events if isinstance(each, StatementRecorded)}
    ended = {sources[each.statement_id]: each.at for each in events if isinstance(each, ExecutionFinished)}
    return [at - ended[source] for source, at in seen.items() if source.startswith(f"'{word}")]


@contextmanager
def _agent(state: Path, place: Path) -> Iterator[Client]:
    client = Client((OURS.agent, "--model", "direct"), state, str(place))
    try:
        yield client
    finally:
        client.close()


def _page(client: Client, session: str) -> str:
    """Type `/page`, and return the address with its ticket."""
    found: list[str] = []

    def is_answer(message: dict[str, Any]) -> bool:
        found.extend(_ADDRESS.findall(str(message.get("params", {}).get("update", {}).get("content", ""))))
        return message.get("id") == number and "method" not in message

    number = client.begin_prompt(session, "/page")
    client.until(is_answer)
    return next(address for address in found if "ticket=" in address)


# --- what a page costs ------------------------------------------------------------------------------------------------


def _costs(place: Path, tab: Browser, setting: Setting) -> list[Row]:
    """Two agents, taking turns: one without a page, and one whose page a browser shows."""
    with ExitStack() as stack:
        agents = {name: stack.enter_context(_agent(place / f"costs-{name}", place)) for name in ("without", "with")}
        sessions = {name: client.open() for name, client in agents.items()}
        for number in range(setting.size(200)):
            for name, client in agents.items():
                client.prompt(sessions[name], f"part_{number} = list(range({number}))")
        before = {name: held(client.process.pid) for name, client in agents.items()}
        tab.command("open", url=_page(agents["with"], sessions["with"]))
        tab.command("wait", target=".activity:has-text('live')")

        def turns(source: str, count: int) -> tuple[dict[str, float], dict[str, float]]:
            took: dict[str, list[float]] = {name: [] for name in agents}
            work: dict[str, list[float]] = {name: [] for name in agents}
            for number in range(count + 1):
                for name, client in agents.items():
                    start = worked(client.process.pid)
                    seconds = client.prompt(sessions[name], source.format(number=number))
                    if number:
                        took[name].append(seconds)
                        work[name].append(worked(client.process.pid) - start)
            middle = {name: statistics.median(values) for name, values in took.items()}
            return middle, {name: statistics.fmean(values) for name, values in work.items()}

        waits = turns(f"import time\nfor _ in range(5): time.sleep({WAIT / 5})\n{{number}}", setting.rounds(TURNS // 4))
        trivial = turns("count = {number}", setting.rounds(TURNS))
        after = {name: held(client.process.pid) for name, client in agents.items()}
        tab.command("leave")
    added = after["with"] - before["with"] - (after["without"] - before["without"])
    return [
        _added(f"turn with a statement of {duration(WAIT)}: what a live page adds", *waits, setting, bar=ADDED),
        _added("turn with a trivial statement, back to back: what a live page adds", *trivial, setting),
        Row(
            name="memory that a live page of 200 statements adds to the agent",
            ours=f"{added / 1e6:.0f} MB",
            bar=f"<= {MEMORY / 1e6:.0f} MB",
            met=added <= MEMORY or setting.quick,
        ),
    ]


def _added(
    name: str, took: Mapping[str, float], work: Mapping[str, float], setting: Setting, bar: float | None = None
) -> Row:
    part = took["with"] / took["without"] - 1
    return Row(
        name=name,
        ours=f"{part:.1%}",
        peer=f"{duration(took['with'])} with, {duration(took['without'])} without it;"
        f" {duration(work['with'] - work['without'])} more of the processor's time",
        bar="" if bar is None else f"<= {bar:.0%}",
        met=None if bar is None else part <= bar or setting.quick,
    )
