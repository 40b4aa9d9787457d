"""A slow reference for the tail of a prompt: what it may say, from the log and from what the worker holds.

`problems` parses the text as it is sent. Files have at most a few short lines, and the budget is so large that nothing
is left out, so each text is compared as a whole. Statements, summaries and names have tests of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import xxhash
from msgspec.structs import replace

from engine.context.model import Prompt
from engine.context.tail.feed import DIFFERED, REBUILT, diverged_sentence
from engine.context.tail.section_parts import GROUPS, HANDLES, IN_RESULTS, PINS, as_shown_by
from engine.context.tail.sections import EXPANSIONS
from engine.core.execution import Display
from engine.files.view import AS_SHOWN
from engine.log.events.conversation import ToolResult
from engine.log.events.going_back import Diverged
from engine.runtime.worker.handles.states import DIFFERING
from tests.support.tail_parser import applied, entries, sections
from tests.support.told import Conversation

Nodes = Mapping[str, Mapping[str, Any]]
"""What the worker holds, by `held_nodes.held`."""


def problems(prompt: Prompt, told: Conversation, nodes: Nodes, contents: Mapping[str, str]) -> list[str]:
    """What the tail says that is stale, doubled or false; `contents` are all texts that files had, by digest."""
    parts = sections(prompt.tail)
    names = {node["name"]: obj_id for obj_id, node in nodes.items()}
    return [
        *_of_handles(parts.get(HANDLES, []), nodes),
        *_of_surfaces(prompt, parts, told, nodes, names),
        *_of_feed(parts, told, nodes, names, contents),
        *_of_groups(nodes),
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
    for heading, wanted in ((GROUPS, outer), (PINS, pinned), (EXPANSIONS, asked)):
        left = "".join(f"{line}\n" for line in parts.get(heading, []))
        by_result = {
            names.get(match[1]) for match in re.finditer(r"(\S+) \(statement \d+\)", str(parts.get(IN_RESULTS)))
        }
        for key in sorted(wanted, key=lambda each: -len(nodes[each]["name"])):
            node = nodes[key]
            text = _most_detailed(node, told.asked.get(key, []), own=heading != EXPANSIONS)
            start = re.escape(node["name"]) + (r": [^\n]*" if heading == EXPANSIONS else r" \([^\n]*\)")
            end = r"\n" if heading == EXPANSIONS else r":\n" if text else r"\n"
            whole = re.compile(f"^{start}{end}{re.escape(text)}", re.M)
            clause = re.compile(rf"^{start}, {as_shown_by(0)[:-1]}\d+\n", re.M)
            left, shown = whole.subn("", left, count=1)
            left, referred = clause.subn("", left, count=1)
            is_listed = heading == GROUPS and key in by_result
            if shown + referred + is_listed != 1:
                found.append(f"{heading} {node['name']} is shown {shown + referred + is_listed} times: {prompt.tail}")
            elif not shown and text.strip() not in standing and key not in told.touched:
                found.append(f"{heading} {node['name']}: no result shows {text!r}")
            elif shown and DIFFERING not in prompt.tail and _stands(prompt, told, key, text):
                found.append(f"{heading} {node['name']} is shown here and in a result: {text!r}")
        if left.strip():
            found.append(f"{heading} has more: {left!r}")
    return found


def _of_groups(nodes: Nodes) -> list[str]:
    """The headings in a group name its members as they are called now."""
    found = list[str]()
    for node in nodes.values():
        below, waiting = set[str](), [*node["members"]]
        while waiting:
            below.add(key := waiting.pop())
            waiting += [each for each in nodes[key]["members"] if each not in below]
        said = set(re.findall(r"^# (\S+): ", node["own"], re.M)) if node["type"] == "group" else set[str]()
        found += [f"two headings of {name}" for name in re.findall(r"^# (\S+), .*\n# \1$", node["own"], re.M)]
        found += [f"{node['name']} has no {name}" for name in said - {nodes[each]["name"] for each in below}]
    return found


def _stands(prompt: Prompt, told: Conversation, key: str, text: str) -> bool:
    """Return whether the last result that shows the handle shows this text at its own policy."""
    calls = [each.tool_call_id for each in prompt.messages if isinstance(each, ToolResult)]
    shown = [each for call in calls for each in told.displays.get(call, ()) if each.obj_id == key]
    return bool(shown) and not shown[-1].given and shown[-1].text == text


def _most_detailed(node: Mapping[str, Any], asked: Sequence[Display], *, own: bool) -> str:
    given = [(each.lod, each.budget) for each in asked if each.given]
    policies = [*given, *([(node["lod"], node["tokens"])] if own or len(given) < len(asked) else [])]
    best = min(policies, key=lambda policy: (policy[0], -(policy[1] or 1 << 40)))
    return node["texts"][best] if best in given else node["own"]


def _of_feed(
    parts: Mapping[str, list[str]],
    told: Conversation,
    nodes: Nodes,
    names: Mapping[str, str],
    contents: Mapping[str, str],
) -> list[str]:
    found = list[str]()
    changes = entries(parts, names)
    counted = Counter(entry[0].partition(": ")[0] for entry in changes if not entry[0].startswith("namespace: "))
    found += [f"{name} changed {number} times" for name, number in counted.items() if number > 1]
    found += [f"{name} is no handle" for name in counted if name not in names]
    of_names = [entry[0] for entry in changes if entry[0].startswith("namespace: ")]
    found += [f"said twice: {line}" for line, number in Counter(of_names).items() if number > 1]
    rebuilds = sum(REBUILT in line for line in of_names)
    found += [f"{rebuilds} rebuilds instead of {told.rebuilt}"] * (rebuilds != bool(told.rebuilt))
    said = {line.partition(": ")[2] for line in of_names if DIFFERED in line}
    expected = _net_differences(told.differing)
    found += [f"differences: {said} instead of {expected}"] * (said != expected)
    for line in of_names:
        if (match := re.match(r"namespace: statement (\d+), ", line)) and int(match[1]) not in told.failed:
            found.append(f"no failure: {line}")
    for first, *diff in changes:
        key = names.get(first.partition(": ")[0])
        base = _base(told, key, contents) if key else None
        if AS_SHOWN in first and key not in told.changed:
            found.append(f"nobody was told otherwise: {first}")
        read = told.read.get(key or "")
        is_known = read is not None and told.replayed.get(key or "", read).digest == read.digest
        files = re.search(r" changed \((.*?)\)", first) if is_known else None
        for path in files[1].split(", ") if key and files else ():
            is_shown = f"# {path}\n" in nodes[key]["own"]
            if is_shown and not any(f" changed in {path}" in line for entry in changes for line in entry):
                found.append(f"no line of {path}: {first}")
        if key is None or base is None or nodes[key]["type"] == "group" or not diff:
            continue
        changed = applied(base.splitlines(), diff)
        if changed != list(nodes[key]["lines"]):
            found.append(f"{first} {diff} makes {changed} of {base!r}, not {nodes[key]['lines']}")
    return found


def _net_differences(differing: Sequence[tuple[int, Diverged]]) -> set[str]:
    net = dict[tuple[int, str], Diverged]()
    for _, each in differing:
        first = net.get((each.statement, each.aspect), each)
        net[each.statement, each.aspect] = replace(each, before=first.before)
    return {diverged_sentence(each) for each in net.values() if each.before != each.after}


def _base(told: Conversation, key: str, contents: Mapping[str, str]) -> str | None:
    """What the conversation shows of a handle; None where that is uncertain."""
    shown = told.read.get(key) or next(iter(told.shown.get(key, [])), None)
    is_diff = shown is not None and 3 in {shown.lod, *(each.lod for each in told.shown.get(key, []))}
    return None if shown is None or is_diff else contents.get(shown.revision)


def digest(text: str) -> str:
    """The digest of a file's content, as displays have it."""
    return xxhash.xxh3_64_hexdigest(text.encode())
