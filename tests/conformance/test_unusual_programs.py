"""Programs that conform in unusual ways get advice at most, because no sentence forbids what they do."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.runner import Plan, run
from conformance.traffic import Traffic
from tests.conformance.suite_runs import SUBJECTS, conforming, defect, failing, in_memory, suite, transcript_of

Agent: Any = conforming("acp")
Client: Any = conforming("acp-client")
Server: Any = conforming("mcp")
Message = dict[str, Any]


class AsksInEveryTurn(Agent):
    """Uses tools in every turn, and passes on the error of a permission request."""

    def steps(self, session: Message, text: str) -> Any:
        return super().steps(session, f"{text} tool")

    def take_answer(self, message: Message) -> None:
        turn = next((one for name, one in self.calls.items() if name == message.get("id")), None)
        if "error" not in message or turn is None or turn.ended or turn.asked != "session/request_permission":
            super().take_answer(message)
            return
        turn.ended = True
        self.turns.remove(turn)
        turn.steps.close()
        self.refuse({"id": turn.id}, message["error"]["code"], message["error"]["message"])


class WritesSingleBytes:
    """Writes every byte separately."""

    def send(self: Any, message: Message) -> None:
        for byte in self.encode(message):
            self.world.write(bytes([byte]))


class EndsLinesAsWindowsDoes:
    """Ends lines with CR LF and surrounds messages with spaces."""

    def encode(self: Any, message: Message) -> bytes:
        return b"  " + super().encode(message)[:-1] + b" \r\n"  # type: ignore[misc] -- of the program it is mixed into


class AddsMeta:
    """Adds `_meta` everywhere."""

    def send(self: Any, message: Message) -> None:
        meta = {"_meta": {"vendor.example/x": {"a": [1, None]}}}
        for part in ("params", "result"):
            if isinstance(message.get(part), dict):
                message = {**message, part: {**message[part], **meta}}
        super().send(message)  # type: ignore[misc] -- of the program it is mixed into


class HasTextIds(Agent):
    """Uses string ids for its own requests."""

    def request(self, method: str, params: Message) -> Any:
        self.next_id += 1
        name = f"r{self.next_id}"
        self.send({"jsonrpc": "2.0", "id": name, "method": method, "params": params})
        return name


class TellsCommandsLate(Agent):
    """Sends its commands between turns."""

    def new(self, request: Message, params: Message) -> None:
        super().new(request, params)
        self.world.later(0.2, self.tell_commands)

    def tell_commands(self) -> None:
        for session in list(self.sessions.values())[-1:]:
            self.update(session, "available_commands_update", availableCommands=[])


class ExitsSlowlyWithAnError(Agent):
    """Exits slowly with an error, like an interrupted interpreter."""

    def input_ended(self) -> None:
        self.world.later(0.8, lambda: self.world.exit(1))


class HoldsUpdatesBack(Agent):
    """Writes all messages of a turn at once, at its end or before a request."""

    held = b""

    def send(self, message: Message) -> None:
        self.held += self.encode(message)
        if "id" in message:
            self.world.write(self.held)
            self.held = b""


class SaysLittle(Agent):
    """Sends one chunk per turn."""

    def steps(self, session: Message, text: str) -> Any:
        self.show(session, "agent_message_chunk", content={"type": "text", "text": "x"})
        yield ("sleep", 5.0 if "count" in text else 0.01, None)
        if "tool" in text:
            yield from self.use_tools(session)
        return "end_turn"


class IsQuick(Agent):
    """Its turns are too short to be cancelled."""

    def steps(self, session: Message, text: str) -> Any:
        return super().steps(session, text.replace("count", ""))


class LogsMuch(Agent):
    """Writes much to standard error."""

    def send(self, message: Message) -> None:
        self.world.log(b"debug: sent\n" * 50)
        super().send(message)


class StaysOpen(Client):
    """Waits for its user after its turn."""

    def prompted(self, result: Message, error: Message) -> None:
        del result, error
        self.prompting = False


class OffersNothing(Client):
    """Supports neither files nor terminals."""

    def capabilities(self) -> Message:
        return {}


class PromptsTwice(Client):
    """Runs a second turn."""

    prompts = 0

    def prompted(self, result: Message, error: Message) -> None:
        self.prompts += 1
        if self.prompts == 1 and not error:
            self.prompt()
        else:
            super().prompted(result, error)


class TakesItsTime(Client):
    """Reads each line with a delay."""

    def take_line(self, line: bytes) -> None:
        self.world.later(0.2, lambda: super(TakesItsTime, self).take_line(line))


def mixed(*classes: Any) -> Any:
    return type("".join(one.__name__ for one in classes), classes, {})


UNUSUAL = {
    "acp": (
        *(AsksInEveryTurn, HasTextIds, TellsCommandsLate, ExitsSlowlyWithAnError, HoldsUpdatesBack, SaysLittle),
        *(IsQuick, LogsMuch),
        *(mixed(kind, Agent) for kind in (WritesSingleBytes, EndsLinesAsWindowsDoes, AddsMeta)),
    ),
    "acp-client": (
        *(StaysOpen, OffersNothing, PromptsTwice, TakesItsTime),
        *(mixed(kind, Client) for kind in (WritesSingleBytes, EndsLinesAsWindowsDoes, AddsMeta)),
    ),
    "mcp": (mixed(WritesSingleBytes, Server), mixed(EndsLinesAsWindowsDoes, Server)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("of", "program"), [(of, one) for of, programs in UNUSUAL.items() for one in programs])
def test_unusual_but_allowed_programs_pass(of: str, program: Any) -> None:
    outcome = run(Plan(suite(of), in_memory(program, of), SUBJECTS[of].options, jobs=1))
    assert (outcome.obstacle, failing(outcome)) == ("", set())


class EndsAtASecondInitialize(Agent):
    """Exits at a second initialize, which the protocol does not define."""

    def initialize(self, request: Message, params: Message) -> None:
        super().initialize(request, params)
        self.initialize = lambda *_: self.world.exit(1)


class EndsAtABrokenOne(Agent):
    """Exits at a broken initialize, although broken fields must be ignored."""

    def initialize(self, request: Message, params: Message) -> None:
        if params.get("clientInfo") == 7:
            self.world.exit(1)
        super().initialize(request, params)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (EndsAtASecondInitialize, ("pass", "")),
        (
            EndsAtABrokenOne,
            (
                "fail",
                "with wrong types in InitializeRequest.clientInfo: "
                "initialize was not answered before its connection ended, 0.0 s later",
            ),
        ),
    ],
)
def test_second_initialize_may_end_agent_but_broken_may_not(program: Any, expected: tuple[str, str]) -> None:
    results = suite().judge([transcript_of("initialize-malformed", program)])
    verdict = next(r.verdict for r in results if r.requirement.id == "ACP1-A-INIT-008")
    assert (verdict.outcome, verdict.reason) == expected


def test_every_turn_answers_permission_requests() -> None:
    results = suite().judge([transcript_of("meta", AsksInEveryTurn)])
    verdict = next(r.verdict for r in results if r.requirement.id == "ACP1-A-INIT-014")
    assert verdict.outcome == "pass"


class OffersModels(Agent):
    """In a field of an older schema."""

    def answer(self, request: Message, result: Any) -> None:
        if request.get("method") == "session/new":
            result = {**result, "models": {"currentModelId": "a", "availableModels": []}}
        super().answer(request, result)


class OffersItsOwn(Agent):
    """In a field that no schema ever had."""

    def answer(self, request: Message, result: Any) -> None:
        if request.get("method") == "session/new":
            result = {**result, "myModels": []}
        super().answer(request, result)


class LeavesAServerRunning(Agent):
    """In a terminal that later turns use: it neither waits for the exit nor releases it."""

    def run(self, session: Message, call: str, diff: Message, *, kill: bool) -> Any:
        del call, diff, kill
        yield ("call", "terminal/create", {"sessionId": session["id"], "command": "serve"})
        return "end_turn"


class AnswersWhatItDoesNotKnow(Agent):
    """With an empty result."""

    def refuse(self, request: Message, code: int, text: str) -> None:
        if code == -32601:
            self.answer(request, {})
        else:
            super().refuse(request, code, text)


class PretendsFiles(Client):
    """Every file has the same content."""

    def content(self, params: Message) -> str:
        del params
        return "pretended"


def undecided(of: str, scenario: str, program: Any) -> tuple[set[str], set[str]]:
    """Return the violations, and the failures that do not decide."""
    rows = {row.id: row for row in suite(of).requirements if row.scenario in (None, scenario)}
    results = suite(of).judge([transcript_of(scenario, program, of)], rows)
    failing = [one for one in results if one.verdict.outcome == "fail"]
    return {one.requirement.id for one in failing if one.is_violation}, {
        one.requirement.id for one in failing if not one.is_violation
    }


@pytest.mark.parametrize(
    ("of", "scenario", "program", "advice"),
    [
        ("acp", "opening", OffersModels, set[str]()),
        ("acp", "tool-turn", LeavesAServerRunning, set[str]()),
        ("acp", "unknown-methods", AnswersWhatItDoesNotKnow, {"ACP1-A-RPC-011", "ACP1-A-RPC-013"}),
        ("acp", "mcp-server", defect("ACP1-A-MCP-001"), {"ACP1-A-MCP-001"}),
        ("acp", "list", defect("ACP1-A-LIST-010"), {"ACP1-A-LIST-010"}),
        ("acp-client", "read-file", PretendsFiles, {f"ACP1-C-FS-{number:03}" for number in (2, 4, 5, 6, 7, 8, 10)}),
        ("acp-client", "read-files-at-once", PretendsFiles, set[str]()),
    ],
)
def test_unusual_behaviour_is_no_violation(of: str, scenario: str, program: Any, advice: set[str]) -> None:
    assert undecided(of, scenario, program) == (set(), advice)


def test_invented_field_is_a_violation() -> None:
    assert undecided("acp", "opening", OffersItsOwn) == ({"ACP1-A-RPC-009"}, set())


class IgnoresUnknownSessions(Agent):
    """Does not answer a prompt for a session that does not exist."""

    def prompt(self, request: Message, params: Message) -> None:
        if params["sessionId"] in self.sessions:
            super().prompt(request, params)


def test_answer_about_an_unknown_session_gets_the_full_time() -> None:
    traffic = Traffic(transcript_of("unknown-session", IgnoresUnknownSessions))
    asked, unanswered = traffic.marks("prompt"), traffic.marks("unanswered")
    assert [mark.value for mark in asked] == [mark.value for mark in unanswered]
    assert unanswered[0].ms - asked[0].ms >= SUBJECTS["acp"].options.timeout * 1000


def test_refused_field_is_found_among_those_broken_together() -> None:
    name = "ACP1-C-RPC-018"
    results = suite("acp-client").judge([transcript_of("requests-malformed", defect(name, "acp-client"), "acp-client")])
    verdict = next(one.verdict for one in results if one.requirement.id == name)
    assert verdict.reason.startswith("with wrong types in RequestPermissionRequest._meta: ")


class RefusesToListen(Server):
    """Offers subscriptions, but refuses streams."""

    def listen(self, request: Message, params: Message) -> None:
        del params
        self.refuse(request, -32603, "Internal error")


def test_refused_stream_is_not_waited_for() -> None:
    transcript = transcript_of("listen", RefusesToListen, "mcp")
    mark = Traffic(transcript).marks("listen")[0]
    refused = next(m for m in Traffic(transcript).sent("server") if m.id == mark.value)
    following = next(m for m in Traffic(transcript).sent("client") if m.order > refused.order)
    assert following.ms - refused.ms < SUBJECTS["mcp"].options.timeout * 1000
