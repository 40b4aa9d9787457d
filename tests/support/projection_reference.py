"""A slow reference for the tail of a prompt: what it may say, from the log and from what the worker holds.

`problems` parses the text as it is sent. Files have at most a few short lines, and the budget is so large that nothing
is left out, so each text is compared as a whole. Statements, summaries and names have tests of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import xxhash

from engine.context.model import Prompt
from engine.core.execution import Display
from engine.log.branches import path_of
from engine.log.events import Event
from engine.log.events.conversation import ResultRerendered, ToolCall, ToolResult
from engine.log.events.execution import ExecutionFinished, StatementRecorded
from engine.log.events.going_back import Diverged, ReplayBegun, ReplayEnded
from engine.log.events.nodes import MethodCalled, NodeChanged
from engine.log.facts import Readings

PROBE: Final = """
def _nodes():
    nodes = view.__self__._nodes
    return {
        node.obj_id: {
            "name": nodes.name_of(node), "type": node.obj_type, "title": node.title, "mode": node.mode, "lod": node.lod,
            "tokens": node.tokens if isinstance(node.tokens, int) else 0, "pinned": node.pinned is not None,
            "members": [each.obj_id for each in node.children()], "own": node.measure().text,
            "lines": node.revision.lines if node.obj_type == "view" else (),
            "texts": {f"{lod} {tokens}": node.Render(lod, tokens or All).text for lod in range(4) for tokens in ASKED},
        }
        for node in nodes.all()
    }
print(_nodes())
del _nodes
"""
"""What the worker holds; `ASKED` stands for the budgets that `show` was given."""
_NEW, _EARLIER = "Changed since your last statement:", "Changed before that, since you were shown them:"
_EARLIER_ALONE, _HANDLES = "Changed since you were shown them:", "Handles (name: "
_GROUPS, _SHOWN, _PINS = "Groups, as they are now:", "Shown from outside your statements:", "Pinned:"
_STANDING: Final = "As results show them: "
_PAST: Final = "Statements that the summary stands for"
_HEADINGS: Final = (_PAST, _NEW, _EARLIER, _EARLIER_ALONE, _HANDLES, _GROUPS, _STANDING, _SHOWN, _PINS)
_BY_RESULT: Final = re.compile(r", as the result of statement (\d+) shows it$|(?:, |: )([^ ,]+) \(statement (\d+)\)")
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
Nodes = Mapping[str, Mapping[str, Any]]


@dataclass
class Conversation:
    """What the log has of the active path: what was shown of each handle, and what is unread."""

    shown: dict[str, list[Display]] = field(default_factory=dict[str, list[Display]])
    read: dict[str, Display] = field(default_factory=dict[str, Display])
    asked: dict[str, list[Display]] = field(default_factory=dict[str, list[Display]])
    failed: set[int] = field(default_factory=set[int])
    touched: set[str] = field(default_factory=set[str])
    changed: set[str] = field(default_factory=set[str])
    displays: dict[str, Sequence[Display]] = field(default_factory=dict[str, Sequence[Display]])
    differing: list[tuple[int, Diverged]] = field(default_factory=list[tuple[int, Diverged]])


class Replay:
    """The differences that count: those of edits, and of live replays that completed."""

    def __init__(self) -> None:
        self._mode: str | None = None
        self._found: list[tuple[int, Diverged]] = []

    def apply(self, event: Event) -> list[tuple[int, Diverged]]:
        """Return the differences that count from this event on, with their positions."""
        match event:
            case ReplayBegun(mode=mode):
                self._mode, self._found = mode, []
            case ReplayEnded(outcome=outcome):
                counts, self._mode = self._mode == "live" and outcome == "completed", None
                return self._found if counts else []
            case Diverged() if self._mode is None:
                return [(event.seq, event)]
            case Diverged():
                self._found.append((event.seq, event))
            case _:
                pass
        return []


def conversation(events: Sequence[Event]) -> Conversation:
    """Go through the active path once, slowly."""
    found, readings = Conversation(), Readings()
    calls, called, numbers = set[str](), dict[str, str](), dict[str, tuple[int, bool]]()
    unread = list[tuple[int, ExecutionFinished]]()
    changes, replay = list[tuple[int, str]](), Replay()
    for event in path_of(events):
        readings.apply(event)
        found.differing += replay.apply(event)
        match event:
            case ToolCall(parent_id=None, tool_call_id=call):
                calls.add(call)
            case StatementRecorded(statement_id=statement, index=index, tool_call_id=call):
                numbers[statement] = index, call in calls
                called[statement] = call
            case MethodCalled(obj_id=obj_id):
                found.touched.add(obj_id)
            case NodeChanged(obj_id=obj_id, is_source=True):
                changes.append((event.seq, obj_id))
            case ExecutionFinished() if event.counts and event.mode is None:
                unread.append((event.seq, event))
                found.displays[called.get(event.statement_id, "")] = event.displays
            case ResultRerendered(tool_call_id=call, displays=displays):
                found.displays[call] = displays
            case _:
                pass
        for seq, finished in [each for each in unread if each[0] < readings.until]:
            found.read |= {each.obj_id: each for each in finished.displays}
            unread.remove((seq, finished))
    found.changed = {obj_id for seq, obj_id in changes if seq < readings.until}
    found.differing = [each for each in found.differing if each[0] >= readings.until]
    for _, finished in unread:
        index, is_asked = numbers[finished.statement_id]
        found.failed |= {index} if finished.status != "ok" and not is_asked else set()
        for each in finished.displays:
            found.shown.setdefault(each.obj_id, []).append(each)
            if not is_asked:
                found.asked.setdefault(each.obj_id, []).append(each)
    return found


def sections(tail: str) -> dict[str, list[str]]:
    """The lines of each section by its heading; a heading that comes twice is an error."""
    found = dict[str, list[str]]()
    current = list[str]()
    for line in tail.splitlines():
        heading = next((each for each in _HEADINGS if line.startswith(each)), None)
        if heading is None:
            current.append(line)
        else:
            assert heading not in found, f"{heading} stands twice"
            current = found[heading] = [line] if heading == _STANDING else []
    return found


def problems(prompt: Prompt, events: Sequence[Event], nodes: Nodes, contents: Mapping[str, str]) -> list[str]:
    """What the tail says that is stale, doubled or false; `contents` are all texts that files had, by digest."""
    told, parts = conversation(events), sections(prompt.tail)
    names = {node["name"]: obj_id for obj_id, node in nodes.items()}
    return [
        *_of_handles(parts.get(_HANDLES, []), nodes),
        *_of_surfaces(prompt, parts, told, nodes, names),
        *_of_feed(parts, told, nodes, names, contents),
    ]


def _of_handles(lines: Sequence[str], nodes: Nodes) -> list[str]:
    expected = Counter(f"{node['name']}: {node['type']} {node['title']}, {node['mode']}" for node in nodes.values())
    said = Counter(re.sub(r"( Sync| Periodic \S+)?, lod .*", "", line) for line in lines)
    return [f"handle table: {said} instead of {expected}"] * (said != expected)


def _of_surfaces(
    prompt: Prompt, parts: Mapping[str, list[str]], told: Conversation, nodes: Nodes, names: Mapping[str, str]
) -> list[str]:
    inner = {each for node in nodes.values() for each in node["members"]}
    outer = {key for key, node in nodes.items() if node["type"] == "group" and (key not in inner or node["pinned"])}
    pinned = {key for key, node in nodes.items() if node["pinned"]} - outer
    asked = {key for key in told.asked if key in nodes} - outer - pinned
    results = {each.tool_call_id: each.text for each in prompt.messages if isinstance(each, ToolResult)}
    standing = "\n".join(results.values())
    found = list[str]()
    for heading, wanted in ((_GROUPS, outer), (_PINS, pinned), (_SHOWN, asked)):
        left = "".join(f"{line}\n" for line in parts.get(heading, []))
        by_result = {
            names.get(match[1]) for match in re.finditer(r"(\S+) \(statement \d+\)", str(parts.get(_STANDING)))
        }
        for key in sorted(wanted, key=lambda each: -len(nodes[each]["name"])):
            node = nodes[key]
            text = _most_detailed(node, told.asked.get(key, []), own=heading != _SHOWN)
            start = re.escape(node["name"]) + (r": [^\n]*" if heading == _SHOWN else r" \([^\n]*\)")
            end = r"\n" if heading == _SHOWN else r":\n" if text else r"\n"
            whole = re.compile(f"^{start}{end}{re.escape(text)}", re.M)
            clause = re.compile(f"^{start}, as the result of statement \\d+ shows it\n", re.M)
            left, shown = whole.subn("", left, count=1)
            left, referred = clause.subn("", left, count=1)
            is_listed = heading == _GROUPS and key in by_result
            if shown + referred + is_listed != 1:
                found.append(f"{heading} {node['name']} is shown {shown + referred + is_listed} times: {prompt.tail}")
            elif not shown and text.strip() not in standing and key not in told.touched:
                found.append(f"{heading} {node['name']}: no result shows {text!r}")
            elif shown and "came out differently" not in prompt.tail and _stands(prompt, told, key, text):
                found.append(f"{heading} {node['name']} is shown here and in a result: {text!r}")
        if left.strip():
            found.append(f"{heading} has more: {left!r}")
    return found


def _stands(prompt: Prompt, told: Conversation, key: str, text: str) -> bool:
    """Return whether the last result that shows the handle shows this text at its own policy."""
    calls = [each.tool_call_id for each in prompt.messages if isinstance(each, ToolResult)]
    shown = [each for call in calls for each in told.displays.get(call, ()) if each.obj_id == key]
    return bool(shown) and not shown[-1].given and shown[-1].text == text


def _most_detailed(node: Mapping[str, Any], asked: Sequence[Display], *, own: bool) -> str:
    policies = [(each.lod, each.budget) for each in asked if each.given]
    if own or len(policies) < len(asked):
        policies.append((node["lod"], node["tokens"]))
    lod, tokens = min(policies, key=lambda policy: (policy[0], -(policy[1] or 1 << 40)))
    is_own = (own or len(policies) > len([each for each in asked if each.given])) and (lod, tokens) == policies[-1]
    return node["own"] if is_own else node["texts"][f"{lod} {tokens}"]


def _of_feed(
    parts: Mapping[str, list[str]],
    told: Conversation,
    nodes: Nodes,
    names: Mapping[str, str],
    contents: Mapping[str, str],
) -> list[str]:
    found = list[str]()
    entries = list[list[str]]()
    for line in (line for heading in (_NEW, _EARLIER, _EARLIER_ALONE) for line in parts.get(heading, [])):
        name = line.partition(": ")[0]
        if name in names or name == "namespace" or re.fullmatch(r"(view|group)-[\d.]+", name):
            entries.append([line])
        else:
            entries[-1].append(line)
    counted = Counter(entry[0].partition(": ")[0] for entry in entries if not entry[0].startswith("namespace: "))
    found += [f"{name} changed {number} times" for name, number in counted.items() if number > 1]
    found += [f"{name} is no handle" for name in counted if name not in names]
    of_names = [entry[0] for entry in entries if entry[0].startswith("namespace: ")]
    found += [f"said twice: {line}" for line, number in Counter(of_names).items() if number > 1]
    found += ["rebuilt twice"] * (sum("rebuilt in a new worker" in line for line in of_names) > 1)
    said = {line.partition(": ")[2] for line in of_names if "ran again and came out differently" in line}
    expected = _net_differences(told.differing)
    found += [f"differences: {said} instead of {expected}"] * (said != expected)
    for line in of_names:
        if (match := re.match(r"namespace: statement (\d+), ", line)) and int(match[1]) not in told.failed:
            found.append(f"no failure: {line}")
    for first, *diff in entries:
        key = names.get(first.partition(": ")[0])
        base = _base(told, key, contents) if key else None
        if "has again the content" in first and key not in told.changed:
            found.append(f"nobody was told otherwise: {first}")
        if key is None or base is None or nodes[key]["type"] == "group" or not diff:
            continue
        changed = _applied(base.splitlines(), diff)
        if changed != list(nodes[key]["lines"]):
            found.append(f"{first} {diff} makes {changed} of {base!r}, not {nodes[key]['lines']}")
    return found


def _net_differences(differing: Sequence[tuple[int, Diverged]]) -> set[str]:
    net = dict[tuple[int, str], tuple[str, str]]()
    for _, each in differing:
        before, _ = net.get((each.statement, each.aspect), (each.before, ""))
        net[each.statement, each.aspect] = before, each.after
    return {
        f"statement {statement} ran again and came out differently: {aspect}: {after or 'nothing'} instead of "
        f"{before or 'nothing'}"
        for (statement, aspect), (before, after) in net.items()
        if before != after
    }


def _base(told: Conversation, key: str, contents: Mapping[str, str]) -> str | None:
    """What the conversation shows of a handle; None where that is uncertain."""
    shown = told.read.get(key) or next(iter(told.shown.get(key, [])), None)
    is_diff = shown is not None and 3 in {shown.lod, *(each.lod for each in told.shown.get(key, []))}
    return None if shown is None or is_diff else contents.get(shown.revision)


def _applied(base: Sequence[str], diff: Sequence[str]) -> list[str] | None:
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


def digest(text: str) -> str:
    """The digest of a file's content, as displays have it."""
    return xxhash.xxh3_64_hexdigest(text.encode())
