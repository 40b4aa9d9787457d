"""What a person sees of a session in an editor: prompts, messages and cards in their order, and their lines."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Message = dict[str, Any]
NEWS = "news_"
"""Begins the ids of thoughts that are told when something happens, and not by a load."""
EntryKind = Literal["prompt", "message", "thought", "card", "notice", "plan", "stop"]

LONG_LINE = 4
"""Words from which a line is expected once: a shorter one may be there twice by chance."""
_CHUNKS: dict[str, EntryKind] = {
    "user_message_chunk": "prompt",
    "agent_message_chunk": "message",
    "agent_thought_chunk": "thought",
}


@dataclass
class Entry:
    """One thing on the screen. A card has its fields in `card`; the others have content blocks."""

    kind: EntryKind
    blocks: list[Message] = field(default_factory=list[Message])
    card: Message = field(default_factory=dict[str, Any])
    terminals: dict[str, str] = field(default_factory=dict[str, str])
    """The output of each terminal in the card, and how it ended."""


def entries(messages: Iterable[Message]) -> list[Entry]:
    """The screen after these messages of both sides. A later plan replaces an earlier one, in its place."""
    found: list[Entry] = []
    placed: dict[str, Entry] = {}
    prompts: set[int | str] = set()
    for message in messages:
        if message.get("method") == "session/prompt":
            found.append(Entry("prompt", list(message["params"]["prompt"])))
            prompts.add(message["id"])
        elif message.get("method") == "session/update":
            _update(message["params"]["update"], found, placed)
        elif "method" not in message and message.get("id") in prompts and "result" in message:
            prompts.discard(message["id"])
            found.append(Entry("stop", [_text(message["result"]["stopReason"])]))
    return found


def _update(update: Message, found: list[Entry], placed: dict[str, Entry]) -> None:
    kind = update["sessionUpdate"]
    match kind:
        case "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk":
            is_news = update["messageId"].startswith(NEWS)
            new = Entry("notice" if is_news else _CHUNKS[kind])
            entry = _placed(f"{kind} {update['messageId']}", new, found, placed)
            last = entry.blocks[-1] if entry.blocks else {}
            if kind != "user_message_chunk" and last.get("type") == update["content"]["type"] == "text":
                entry.blocks[-1] = _text(last["text"] + update["content"]["text"])
            else:
                entry.blocks.append(update["content"])
        case "tool_call" | "tool_call_update":
            entry = _placed(update["toolCallId"], Entry("card"), found, placed)
            entry.card |= {key: value for key, value in update.items() if key not in ("sessionUpdate", "_meta")}
            _fill_terminals(entry, update.get("_meta", {}))
        case "notice":
            found.append(Entry("notice", [_text(update["title"]), _text(update.get("description", ""))]))
        case "plan":
            rows = [f"[{each['status']}] {each['content']}" for each in update["entries"]]
            _placed("plan", Entry("plan"), found, placed).blocks = [_text("\n".join(rows))]
        case _:
            pass


def _placed(key: str, new: Entry, found: list[Entry], placed: dict[str, Entry]) -> Entry:
    if key not in placed:
        placed[key] = new
        found.append(new)
    return placed[key]


def _fill_terminals(entry: Entry, meta: Message) -> None:
    output, ended = meta.get("terminal_output"), meta.get("terminal_exit")
    if output:
        entry.terminals[output["terminal_id"]] = entry.terminals.get(output["terminal_id"], "") + output["data"]
    if ended and ended["exit_code"]:
        name = ended["terminal_id"]
        entry.terminals[name] = f"{entry.terminals.get(name, '')}\nexit code {ended['exit_code']}"


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


# --- lines ------------------------------------------------------------------------------------------------------------


def lines(entry: Entry) -> list[str]:
    """The lines of an entry, as they are drawn."""
    found = [entry.card["title"]] if entry.kind == "card" else []
    content: list[Message] = entry.card.get("content") or []
    for block in content:
        match block["type"]:
            case "diff":
                found += [line for _, line in diff_rows(block)]
            case "terminal":
                found += entry.terminals.get(block["terminalId"], "").splitlines()
            case _:
                found += _block_lines(block["content"])
    for block in entry.blocks:
        found += _block_lines(block)
    return found


def _block_lines(block: Message) -> list[str]:
    match block["type"]:
        case "text":
            return [line for line in block["text"].splitlines() if not line.startswith("```")]
        case "resource":
            return [f"@{block['resource']['uri'].rpartition('/')[2]}"]
        case "resource_link":
            return [f"@{block['name']}"]
        case _:
            return []


def diff_rows(block: Message) -> list[tuple[str, str]]:
    """The rows of a diff with their signs: common lines are drawn once."""
    old, new = (block.get("oldText") or "").splitlines(), block["newText"].splitlines()
    return [(row[0], row[2:]) for row in difflib.ndiff(old, new) if row[0] in " +-"]


def repeated_lines(seen: Sequence[Entry], files: Iterable[str] = ()) -> list[str]:
    """The long lines that are on the screen more than once, without those that the user typed twice.

    Lines of `files` do not count, because several acts may show the same place of a file.
    """
    of_files = {line.strip() for text in files for line in text.splitlines() if line.strip()}
    counts: Counter[str] = Counter()
    for entry in seen:
        if entry.kind not in ("prompt", "stop"):
            counts.update(line.strip() for line in lines(entry) if len(line.split()) >= LONG_LINE)
    typed = {line.strip() for entry in seen if entry.kind == "prompt" for line in lines(entry)}
    counts.update(line for line in typed if line in counts)
    return [line for line, count in counts.items() if count > 1 and not any(line.endswith(each) for each in of_files)]


def reduced(seen: Sequence[Entry]) -> list[tuple[str, Any]]:
    """The screen without what only a live session has: stop reasons, news and how fast output came."""
    return [
        (entry.kind, _reduced_card(entry) if entry.kind == "card" else [_reduced(block) for block in entry.blocks])
        for entry in seen
        if entry.kind not in ("stop", "notice", "plan")
    ]


def _reduced(block: Message) -> Message:
    """A picture of a prompt comes back as it is kept."""
    return {"type": "image"} if block["type"] == "image" else block


def _reduced_card(entry: Entry) -> Message:
    shown = {key: value for key, value in entry.card.items() if key in ("title", "kind", "status", "locations")}
    terminals = {name: text.rstrip() for name, text in entry.terminals.items()}
    return {**shown, "content": entry.card.get("content") or [], "terminals": terminals}
