"""Programs that conform in unusual ways fail nothing that decides: what is allowed is not what everybody does."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.runner import Plan, run
from tests.conformance.suite_runs import SUBJECTS, conforming, failing, in_memory, suite, transcript_of

Agent: Any = conforming("acp")
Client: Any = conforming("acp-client")
Server: Any = conforming("mcp")
Message = dict[str, Any]


class AsksInEveryTurn(Agent):
    """Uses tools whatever it is told, and ends a turn whose permission cannot be asked for with that error."""

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
    """Every byte in a write of its own."""

    def send(self: Any, message: Message) -> None:
        for byte in self.encode(message):
            self.world.write(bytes([byte]))


class EndsLinesAsWindowsDoes:
    """With spaces around messages besides."""

    def encode(self: Any, message: Message) -> bytes:
        return b"  " + super().encode(message)[:-1] + b" \r\n"  # type: ignore[misc] -- of the program it is mixed into


class AddsMeta:
    """To everything."""

    def send(self: Any, message: Message) -> None:
        meta = {"_meta": {"vendor.example/x": {"a": [1, None]}}}
        for part in ("params", "result"):
            if isinstance(message.get(part), dict):
                message = {**message, part: {**message[part], **meta}}
        super().send(message)  # type: ignore[misc] -- of the program it is mixed into


class HasTextIds(Agent):
    """Its own requests have texts as ids."""

    def request(self, method: str, params: Message) -> Any:
        self.next_id += 1
        name = f"r{self.next_id}"
        self.send({"jsonrpc": "2.0", "id": name, "method": method, "params": params})
        return name


class TellsCommandsLate(Agent):
    """Between turns, whenever it knows them."""

    def new(self, request: Message, params: Message) -> None:
        super().new(request, params)
        self.world.later(0.2, self.tell_commands)

    def tell_commands(self) -> None:
        for session in list(self.sessions.values())[-1:]:
            self.update(session, "available_commands_update", availableCommands=[])


class ExitsSlowlyWithAnError(Agent):
    """As interpreters do that are cut off."""

    def input_ended(self) -> None:
        self.world.later(0.8, lambda: self.world.exit(1))


class HoldsUpdatesBack(Agent):
    """All messages of a turn leave in one write, at its end or when it asks something."""

    held = b""

    def send(self, message: Message) -> None:
        self.held += self.encode(message)
        if "id" in message:
            self.world.write(self.held)
            self.held = b""


class SaysLittle(Agent):
    """One chunk for each turn."""

    def steps(self, session: Message, text: str) -> Any:
        self.show(session, "agent_message_chunk", content={"type": "text", "text": "x"})
        yield ("sleep", 5.0 if "count" in text else 0.01, None)
        if "tool" in text:
            yield from self.use_tools(session)
        return "end_turn"


class IsQuick(Agent):
    """No turn of it takes long enough to be cancelled."""

    def steps(self, session: Message, text: str) -> Any:
        return super().steps(session, text.replace("count", ""))


class LogsMuch(Agent):
    """On standard error."""

    def send(self, message: Message) -> None:
        self.world.log(b"debug: sent\n" * 50)
        super().send(message)


class StaysOpen(Client):
    """Waits for its user when its turn has ended."""

    def prompted(self, result: Message, error: Message) -> None:
        del result, error
        self.prompting = False


class OffersNothing(Client):
    """Neither files nor terminals."""

    def capabilities(self) -> Message:
        return {}


class PromptsTwice(Client):
    """A second turn follows the first one."""

    prompts = 0

    def prompted(self, result: Message, error: Message) -> None:
        self.prompts += 1
        if self.prompts == 1 and not error:
            self.prompt()
        else:
            super().prompted(result, error)


class TakesItsTime(Client):
    """Reads a line a moment after it came."""

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
def test_what_is_allowed_though_unusual_fails_nothing(of: str, program: Any) -> None:
    outcome = run(Plan(suite(of), in_memory(program, of), SUBJECTS[of].options, jobs=1))
    assert (outcome.obstacle, failing(outcome)) == ("", set())


class EndsAtASecondInitialize(Agent):
    """Which the protocol has none of."""

    def initialize(self, request: Message, params: Message) -> None:
        super().initialize(request, params)
        self.initialize = lambda *_: self.world.exit(1)


class EndsAtABrokenOne(Agent):
    """Although what is broken there counts as absent."""

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
                "with InitializeRequest.clientInfo broken, "
                "initialize was not answered before its connection ended, 0.0 s later",
            ),
        ),
    ],
)
def test_an_agent_may_end_at_a_second_initialize_and_not_at_a_broken_one(
    program: Any, expected: tuple[str, str]
) -> None:
    results = suite().judge([transcript_of("initialize-malformed", program)])
    verdict = next(r.verdict for r in results if r.requirement.id == "ACP1-A-INIT-008")
    assert (verdict.outcome, verdict.reason) == expected


def test_an_agent_that_asks_in_every_turn_is_answered_in_every_scenario_that_runs_one() -> None:
    results = suite().judge([transcript_of("meta", AsksInEveryTurn)])
    verdict = next(r.verdict for r in results if r.requirement.id == "ACP1-A-INIT-014")
    assert verdict.outcome == "pass"
