"""What a session holds after it was killed and loaded, beside what it held before: by its log alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from engine.log.cycles import cycles_of
from engine.log.cycles.views import to_plain
from engine.log.events.codec import decode
from tests.support.past import names_in
from tests.support.transcripts import Message

NO_COPY = "no copy"
"""What a report says of names that a rebuild could not bring back."""


def compare(before: list[Message], after: list[Message], ordinary: Mapping[str, bool]) -> tuple[list[str], str]:
    """What is wrong; and "same", or "unknown" where nobody knows what was there.

    Args:
        before: the log when the agent was gone.
        after: the log when the session was loaded and had printed what it holds.
        ordinary: of each source whether it comes out the same when it runs again.
    """
    if after[: len(before)] != before:
        return ["the log was rewritten"], "same"
    wrong = [*told_falsely(after, ordinary), *other_cycles(before, after)]
    (was, at), (now, _) = reference(before), reference(after)
    if now is None:
        return [*wrong, f"nothing was shown: {after[-3:]}"], "same"
    if was is None:
        return wrong, "unknown"
    changed = any(event["kind"] == "file_changed" and event["seq"] > at for event in after)
    return [*wrong, *differences(was, now, without_copy(after), changed)], "same"


def probed(event: Message) -> Message | None:
    """What a finished execution printed of its namespace, None where it left none or did not come to it."""
    exception = event.get("exception") or {}
    lines = event.get("stdout", {}).get("text", "").splitlines()
    if exception.get("type") in ("WorkerDied", "NotRun") or not lines or not lines[-1].startswith("PROBE "):
        return None
    try:
        return json.loads(lines[-1].removeprefix("PROBE "))
    except ValueError:
        return None


def reference(events: list[Message]) -> tuple[Message | None, int]:
    """What was there at the end of these events, and the seq of who said so.

    None where nobody knows, because a stop came into the probe.
    """
    for event in reversed([event for event in events if event["kind"] == "execution_finished"]):
        if (event.get("exception") or {}).get("type") in ("WorkerDied", "NotRun"):
            continue
        if event["status"] == "cancelled" and not event.get("exception"):
            continue  # cancelled before it began
        return probed(event), event["seq"]
    return None, 0


def differences(before: Message, after: Message, lost: set[str], changed: bool) -> list[str]:
    """What is not as it was, but for the names that are said to be lost, and what handles followed meanwhile."""
    found = [*other_names(before, after, lost), *other_views(before, after, lost, changed)]
    shared = [
        sorted(part for each in state["shared"] if len(part := [list(x) for x in each if x[0] not in lost]) > 1)
        for state in (before, after)
    ]
    if shared[0] != shared[1]:
        found.append(f"shared: {shared[1]} instead of {shared[0]}")
    tables = [table(state) for state in (before, after)]
    if not lost and not changed and tables[0] != tables[1]:
        found.append(f"table: {tables[1]} instead of {tables[0]}")
    return found


def other_names(before: Message, after: Message, lost: set[str]) -> Iterator[str]:
    """The names that are not as they were, but for those lost, and for instances of a class that is."""
    classes = tuple(f"class {name}(" for name in lost)
    for name in (before["names"].keys() | after["names"].keys()) - lost:
        was, now = (str(state["names"].get(name)) for state in (before, after))
        if was != now and not any(each in was for each in classes):
            yield f"{name}: {now} instead of {was}"


def other_views(before: Message, after: Message, lost: set[str], changed: bool) -> Iterator[str]:
    """The handles that are not as they were, but for those that lost names hold; a running one may follow its file."""
    held = {state["names"].get(name) for name in lost for state in (before, after)}
    for view, was in before["views"].items():
        now = after["views"].get(view)
        if f"view {view}" in held or (now is None and lost):
            continue
        if now is None:
            yield f"{view} is gone"
            continue
        keys = {"obj_id", "mode", "freq", "lod", "tokens", "pos", "min_turn_interval"} & was.keys()
        if was["mode"] != "running":
            keys = set(was)
        elif not changed:
            keys |= {"text", "revision"}
        yield from (f"{view} {key}: {now.get(key)} instead of {was[key]}" for key in keys if now.get(key) != was[key])


def table(state: Message) -> list[str]:
    """What `ls()` lists, but for what a model call takes away, and for handles that only a running statement holds."""
    lines = state["table"].replace(", changed", "").splitlines()
    return [line for line in lines if not line.startswith("view-")]


def other_cycles(before: list[Message], after: list[Message]) -> list[str]:
    """Request cycles that had ended and are others now, and what is no orderly cycle."""
    was, now = (to_plain(cycles_of([decode(json.dumps(event)) for event in events])) for events in (before, after))
    other = [f"cycle {each['cycle']}" for each in was["cycles"] if each["stop"] and each not in now["cycles"]]
    return other + [str(anomaly) for anomaly in now["anomalies"]]


def told_falsely(events: list[Message], ordinary: Mapping[str, bool]) -> list[str]:
    """Lines of reports on statements that came out as they had: of ordinary ones that ended by themselves."""
    sources = {event["index"]: event["source"] for event in events if event["kind"] == "statement_recorded"}
    ids = {event["statement_id"]: event["index"] for event in events if event["kind"] == "statement_recorded"}
    statuses = {
        ids[event["statement_id"]]: event["status"] for event in events if event["kind"] == "execution_finished"
    }
    innocent = {
        f"<statement {index}> "
        for index, source in sources.items()
        if ordinary.get(source) and statuses.get(index) in ("ok", "error")
    }
    reports = [event["divergences"] for event in events if event["kind"] == "environment_restored"]
    return [line for report in reports for line in as_they_were(report) if line.startswith(tuple(innocent))]


def as_they_were(report: list[str]) -> list[str]:
    """The lines up to the first that names what has no copy: later statements found something else than they had."""
    number = re.compile(r"<statement (\d+)>")
    lost = [int(found[1]) for line in report if NO_COPY in line and (found := number.match(line))]
    ends = min(lost, default=10**6)
    return [line for line in report if not (found := number.match(line)) or int(found[1]) <= ends]


def without_copy(events: list[Message]) -> set[str]:
    """The names that the last rebuild says it could not bring back."""
    reports = [event for event in events if event["kind"] == "environment_restored"]
    return names_in(line for line in reports[-1]["divergences"] if NO_COPY in line) if reports else set()
