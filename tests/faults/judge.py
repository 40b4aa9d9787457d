"""What must be true after a fault, whatever the fault was. Shares no code with the product.

`Expected` follows the files of a session from what its user asked for. `Evidence` is what a test collected: messages,
log, files, marks, processes, bytes. `violations` holds the evidence against each rule of RULES, and returns a sentence
for each thing that is wrong. The story that collects the evidence is in `story`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Message = dict[str, Any]
Files = Mapping[str, bytes]
_ENDED: Final = {"completed": "ok", "failed": "error"}


class Expected:
    """The files that must be there: statements change them, and rewinds, undos and redos bring earlier ones back."""

    def __init__(self, files: Files) -> None:
        self.files: Files = dict(files)
        self.after: list[Files] = [self.files]
        """The files after each statement of the active branch; first those before all of them."""
        self.before: list[Files] = []
        """The files before each statement."""
        self.undone: Files | None = None
        """The files that a redo brings back."""

    def changed(self, *steps: Mapping[str, bytes | None]) -> list[Files]:
        """The states that a statement with these steps goes through: the first is that before it, the last after it."""
        states = [self.files]
        for step in steps:
            new = {**states[-1], **{path: data for path, data in step.items() if data is not None}}
            states.append({path: data for path, data in new.items() if step.get(path, b"") is not None})
        return states

    def ran(self, files: Files) -> None:
        """A statement has ended, and left these files."""
        self.before.append(self.files)
        self.after.append(files)
        self.files, self.undone = files, None

    def edited(self, files: Files) -> None:
        """Another statement has run in place of the last one."""
        self.before[-1], self.after[-1] = self.files, files
        self.files, self.undone = files, None

    def last_change(self) -> tuple[Files, Files] | None:
        """The files before and after the last statement that changed some."""
        pairs = zip(reversed(self.before), reversed(self.after[1:]), strict=True)
        return next((pair for pair in pairs if pair[0] != pair[1]), None)

    def undid(self, files: Files, undone: Files | None) -> None:
        """An undo or a redo has left these files; a redo now brings back the others."""
        self.files, self.undone = files, undone

    def went_back(self, statement: int) -> None:
        del self.after[statement + 1 :], self.before[statement:]
        self.files, self.undone = self.after[-1], None


@dataclass
class Prompt:
    """What a client asked. `reason` is the stop reason that it received, None if no response came."""

    text: str
    reason: str | None = None


@dataclass
class Evidence:
    prompts: Sequence[Prompt] = ()
    updates: Sequence[Message] = ()
    """The updates that clients received while things happened, in order."""
    responses: Sequence[Message] = ()
    replays: Sequence[Sequence[Message]] = ()
    """The updates of loads after the fault, with nothing in between."""
    log: Sequence[Message] = ()
    database: str = "ok"
    """What SQLite says about the integrity of the file."""
    files: Files = field(default_factory=dict[str, bytes])
    allowed: Sequence[Files] = ({},)
    """The states of the files of which one must be there, whole."""
    marks: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often each act outside happened."""
    acts: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """How often it must have happened at least and at most."""
    processes: Sequence[str] = ()
    """Those that run although the program has ended."""
    leftovers: Sequence[str] = ()
    """Temporary files that are still there."""
    traces: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """All bytes that were stored, sent or printed, by the place."""
    secrets: Sequence[bytes] = ()
    mode: str = ""
    """The mode that a load shows."""
    modes: Collection[str] = ("",)
    """The modes that it may be."""
    sessions: Mapping[str, Sequence[Message]] = field(default_factory=dict[str, Sequence[Message]])
    """The logs of the other sessions: forks and copies."""
    kept: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many statements each of them must have."""


def active_path(log: Sequence[Message]) -> list[Message]:
    """The events of the branch on which the session is, from the beginning."""
    origins = {
        event["branch"]: (event["parent"], event["before"]) for event in log if event["kind"] == "branch_created"
    }
    branch, limit = "main", len(log)
    for event in log:
        if event["kind"] == "head_moved":
            branch = event["branch"]
    found: list[Message] = []
    while branch:
        found += [event for event in log if event["branch_id"] == branch and event["seq"] < limit]
        branch, limit = origins.get(branch, ("", 0))
    return sorted(found, key=lambda event: event["seq"])


def statements(log: Sequence[Message]) -> int:
    """How many statements the active branch has."""
    return max((event["index"] for event in active_path(log) if event["kind"] == "statement_recorded"), default=0)


def _of_kind(log: Iterable[Message], kind: str) -> Iterator[Message]:
    return (event for event in log if event["kind"] == kind)


def _texts(updates: Iterable[Message]) -> dict[str, str]:
    found: dict[str, str] = {}
    for update in updates:
        if update["sessionUpdate"] == "agent_message_chunk" and "messageId" in update:
            found[update["messageId"]] = found.get(update["messageId"], "") + update["content"].get("text", "")
    return found


def _calls(updates: Iterable[Message]) -> dict[str, str]:
    """The latest status of each tool call, in the order of their first appearance."""
    found: dict[str, str] = {}
    for update in updates:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            found[update["toolCallId"]] = update.get("status") or found.get(update["toolCallId"], "pending")
    return found


def _acknowledged(evidence: Evidence) -> Iterator[str]:
    """What a client was told is on the log, once."""
    log = evidence.log
    results = {event["tool_call_id"]: event["status"] for event in _of_kind(log, "tool_result")}
    for call, status in _calls(evidence.updates).items():
        if call.startswith("call_") and status in _ENDED and call not in results:
            yield f"tool call {call} was shown as {status}, and the log has no result of it"
        elif call.startswith("call_") and status == "completed" and results.get(call) != "ok":
            yield f"tool call {call} was shown as completed, and is {results.get(call)} on the log"
    yield from _messages(evidence)
    texts = {event["message_id"]: event["text"] for event in _of_kind(log, "agent_text")}
    shown = _texts(evidence.updates)
    for message in shown:
        if message.startswith("msg_") and message not in texts and message != list(shown)[-1]:
            yield f"message {message} was shown, and is not on the log"


def _messages(evidence: Evidence) -> Iterator[str]:
    # A message whose branch was left, such as that of a cancelled edit, is on the other branch again.
    messages = list(_of_kind(evidence.log, "user_message"))
    known = Counter({event["message_id"]: event["text"] for event in messages}.values())
    places = Counter((event["message_id"], event["branch_id"]) for event in messages)
    for message, branch in (place for place, times in places.items() if times > 1):
        yield f"message {message} is on branch {branch} {places[message, branch]} times"
    asked = Counter(prompt.text for prompt in evidence.prompts)
    for text, times in asked.items():
        if known[text] > times:
            yield f"prompt {text!r:.60} was sent {times} times, and is on the log {known[text]} times"
    for prompt in evidence.prompts:
        if prompt.reason is not None and not known[prompt.text]:
            yield f"prompt {prompt.text!r:.60} was answered with {prompt.reason}, and is not on the log"


def _shown(evidence: Evidence) -> Iterator[str]:
    """A reply was shown as it is on the log; the last one may lack its end."""
    texts = {event["message_id"]: event["text"] for event in _of_kind(evidence.log, "agent_text")}
    shown = _texts(evidence.updates)
    for message, text in shown.items():
        logged = texts.get(message, text)
        if text != logged and not (message == list(shown)[-1] and logged.startswith(text)):
            yield f"message {message} was shown as {text!r:.80}, and the log has {logged!r:.80}"


def _log(evidence: Evidence) -> Iterator[str]:
    """The log is whole, and nothing on it is open."""
    log = evidence.log
    if evidence.database != "ok":
        yield f"the database is damaged: {evidence.database}"
    if [event["seq"] for event in log] != list(range(len(log))):
        yield "the events are not numbered one after another"
    path = active_path(log)
    for begun, ended in (("execution_started", "execution_finished"), ("user_message", "run_stop")):
        counts = [sum(1 for _ in _of_kind(path, kind)) for kind in (begun, ended)]
        if counts[0] != counts[1]:
            yield f"the log has {counts[0]} {begun} and {counts[1]} {ended}"
    calls = {event["tool_call_id"] for event in _of_kind(path, "tool_call")}
    if missing := calls - {event["tool_call_id"] for event in _of_kind(path, "tool_result")}:
        yield f"tool calls without a result: {sorted(missing)}"


def _story(evidence: Evidence) -> Iterator[str]:
    """What an editor is shown after a load is the active path of the log, and the same in each load."""
    if not evidence.replays:
        return
    path, replay = active_path(evidence.log), evidence.replays[0]
    logged = [event["message_id"] for event in path if event["kind"] in ("user_message", "agent_text")]
    shown = [update["messageId"] for update in replay if update.get("messageId", "").startswith("msg_")]
    if list(dict.fromkeys(shown)) != logged:
        yield f"the load shows the messages {list(dict.fromkeys(shown))}, and the log has {logged}"
    texts = {event["message_id"]: event["text"] for event in _of_kind(path, "agent_text")}
    for message, text in _texts(replay).items():
        if texts.get(message, text) != text:
            yield f"the load shows {text!r:.80} as message {message}, and the log has {texts[message]!r:.80}"
    calls = _calls(replay)
    if opened := [call for call, status in calls.items() if status not in _ENDED]:
        yield f"the load shows tool calls that have not ended: {opened}"
    known = [event["tool_call_id"] for event in _of_kind(path, "tool_call")]
    if (ours := [call for call in calls if call.startswith("call_")]) != [call for call in known if call in calls]:
        yield f"the load shows the tool calls {ours}, and the log has {known}"
    for other in evidence.replays[1:]:
        if (_calls(other), _texts(other)) != (calls, _texts(replay)):
            yield "two loads in a row show different stories"


def _files(evidence: Evidence) -> Iterator[str]:
    """The files are in one of the states that are allowed, whole."""
    if evidence.files in [dict(each) for each in evidence.allowed]:
        return
    nearest = min(evidence.allowed, key=lambda each: len(_different(evidence.files, each)))
    for path in _different(evidence.files, nearest):
        found, wanted = evidence.files.get(path), nearest.get(path)
        yield f"file {path} is {found!r:.60} ({_size(found)}), and must be {wanted!r:.60} ({_size(wanted)})"


def _different(found: Files, wanted: Files) -> list[str]:
    return sorted(path for path in {*found, *wanted} if found.get(path) != wanted.get(path))


def _size(data: bytes | None) -> str:
    return "missing" if data is None else f"{len(data)} bytes"


def _once(evidence: Evidence) -> Iterator[str]:
    """Acts outside happened as often as they must."""
    for act, (least, most) in evidence.acts.items():
        if not least <= evidence.marks.get(act, 0) <= most:
            yield f"act {act} happened {evidence.marks.get(act, 0)} times, and must at least {least}, at most {most}"
    if unknown := set(evidence.marks) - set(evidence.acts):
        yield f"acts happened that nobody asked for: {sorted(unknown)}"


def _processes(evidence: Evidence) -> Iterator[str]:
    """No process outlives the program."""
    yield from (f"a process is left: {process}" for process in evidence.processes)


def _temporary(evidence: Evidence) -> Iterator[str]:
    """No temporary file is left."""
    yield from (f"a temporary file is left: {path}" for path in evidence.leftovers)


def _secrets(evidence: Evidence) -> Iterator[str]:
    """No planted secret is anywhere."""
    for place, data in evidence.traces.items():
        yield from (f"a secret is in {place}" for secret in evidence.secrets if secret in data)


def _answers(evidence: Evidence) -> Iterator[str]:
    """Each request is answered at most once."""
    counts = Counter(message.get("id") for message in evidence.responses if message.get("id") is not None)
    yield from (f"request {number} was answered {count} times" for number, count in counts.items() if count > 1)


def _mode(evidence: Evidence) -> Iterator[str]:
    """A load shows the mode that was set."""
    if evidence.mode not in evidence.modes:
        yield f"the mode is {evidence.mode}, and must be one of {sorted(evidence.modes)}"


def _sessions(evidence: Evidence) -> Iterator[str]:
    """The other sessions are there, whole, and those that were deleted are not."""
    for name, wanted in evidence.kept.items():
        if name not in evidence.sessions:
            yield f"session {name} is lost"
        elif (found := statements(evidence.sessions[name])) != wanted:
            yield f"session {name} has {found} statements, and must have {wanted}"
    for name, log in evidence.sessions.items():
        yield from (f"session {name}: {wrong}" for wrong in _log(Evidence(log=log)))
        if name not in evidence.kept:
            yield f"session {name} is there, and must not be"


RULES: Final[Mapping[str, Callable[[Evidence], Iterator[str]]]] = {
    "acknowledged": _acknowledged,
    "shown": _shown,
    "log": _log,
    "story": _story,
    "files": _files,
    "once": _once,
    "processes": _processes,
    "temporary": _temporary,
    "secrets": _secrets,
    "answers": _answers,
    "mode": _mode,
    "sessions": _sessions,
}


def violations(evidence: Evidence, rules: Iterable[str] = RULES) -> list[str]:
    """What is wrong, each with its rule."""
    return [f"{rule}: {found}" for rule in rules for found in RULES[rule](evidence)]
