"""Turns through a model server: what an agent adds to the model's own time, and what it has the model read.

Rows of `acp`. Goose stands beside ours, from its npm package: both get the same prompts and the same answers over chat
completions, each from a server of its own kind, taking turns. An agent's own time is what passes until its request has
come, and from its answer on. A call of OpenAI's own library with the same request stands beside it too, because that is
what our model calls. What an agent reads is counted for both with the same tokenizer, over the tools and the messages
of each request; requests beside the conversation, as for a title, are told apart.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.clients import Client, held, worked
from benchmarks.environments import OURS, peer_package
from benchmarks.measuring import Figures, Program, Setting, duration, programs, row, script
from benchmarks.model_server import CHUNKS, LONG, Call, ModelServer, model_server
from benchmarks.prompts import shared_tokens, text_of, tools_of
from benchmarks.report import Row
from engine.core.tokens import count

GOOSE: Final = "@aaif/goose-binary-linux-x64@1.52.0"
LIBRARY: Final = "OpenAI's library"
MISSING: Final = f"missing: {GOOSE} cannot be installed"
TURNS: Final = 30
LONG_TURNS: Final = 6

Show = Callable[[float], str]
OWN: Final = 0.010


class _Played(NamedTuple):
    """One agent's session: seconds of its own and requests by turn, and the memory that it held afterwards.

    `long` are the seconds of the processor's time for each long reply that followed.
    """

    own: Sequence[float]
    turns: Sequence[Sequence[Call]]
    memory: float
    long: Sequence[float]

    @property
    def prompts(self) -> list[str]:
        """What was read in answer to each prompt, as one text."""
        return [_read(_main(calls)) for calls in self.turns]

    @property
    def beside(self) -> int:
        """Tokens of all other requests."""
        return sum(count(_read(call)) for calls in self.turns for call in calls if call is not _main(calls))


def rows(setting: Setting, place: Path) -> list[Row]:
    """The rows; where goose cannot be installed they say so, and what is measured against it has no verdict."""
    with programs({LIBRARY: (OURS.python, script("library.py"))}) as started:
        played, library, library_long = _play(setting, place, started[LIBRARY])
    goose = played.get("goose")
    own = {name: statistics.median(each.own[1:]) for name, each in played.items()}
    first = {name: float(len(_main(each.turns[0]).body)) for name, each in played.items()}
    read = {name: float(sum(map(count, each.prompts))) for name, each in played.items()}
    shared = {name: shared_tokens(each.prompts) / read[name] for name, each in played.items()}
    long = {name: statistics.median(each.long[1:]) for name, each in played.items()}
    titles = f"; goose's titles take {goose.beside:,} more" if goose and goose.beside else ""
    session = f"{setting.rounds(TURNS)} turns of a line each"

    def shown(name: str, figures: Figures, show: Show, bar: str = "", met: bool | None = None) -> Row:
        ratio = f"{figures['ours'] / figures['goose']:.2f} x goose" if goose else ""
        return row(name, figures, show, bar=bar, met=met, ratio=ratio, peer="" if goose else MISSING)

    return [
        shown(
            "turn through a model server: own time",
            {**own, LIBRARY: library},
            duration,
            f"<= {duration(OWN)}, <= goose's",
            own["ours"] <= min(OWN, own.get("goose", OWN)) if goose else None,
        ),
        shown("its first prompt, as it is sent", first, lambda size: f"{size:,.0f} B"),
        shown(f"{session}: tokens that the model reads{titles}", read, lambda n: f"{n:,.0f}"),
        shown(f"{session}: of them in the prefix shared with the prompt before", shared, lambda part: f"{part:.1%}"),
        shown(
            f"{session}: memory afterwards",
            {name: each.memory for name, each in played.items()},
            lambda size: f"{size / 1e6:.0f} MB",
            "<= goose's",
            played["ours"].memory <= goose.memory if goose else None,
        ),
        shown(
            f"{CHUNKS:,} chunks through a model server: processor time",
            {**long, LIBRARY: library_long},
            duration,
            "<= 1.5x goose",
            long["ours"] <= 1.5 * long["goose"] if goose else None,
        ),
    ]


def _play(setting: Setting, place: Path, library: Program) -> tuple[dict[str, _Played], float, float]:
    """A session for each agent, taking turns; what the library takes for a request of ours, and for a long reply."""
    with ExitStack() as stack:
        other = stack.enter_context(model_server())
        agents: dict[str, tuple[Client, str, ModelServer]] = {}
        for name, (command, variables) in _commands(setting, place).items():
            server = stack.enter_context(model_server())
            project = place / "project"
            shown = {key: value.format(url=server.url) for key, value in variables.items()}
            client = Client(command, place / f"state-{name}", str(project), {**server.variables, **shown})
            stack.callback(client.close)
            agents[name] = (client, client.open(), server)
        own: dict[str, list[float]] = {name: [] for name in agents}
        alone: list[float] = []
        turns: dict[str, list[list[Call]]] = {name: [] for name in agents}
        for number in range(setting.rounds(TURNS)):
            for name, (client, session, server) in agents.items():
                took = client.prompt(session, f"Question {number}: what is part {number} of this project for?")
                calls = list(server.calls)
                server.calls.clear()
                call = _main(calls)
                own[name].append(took - (call.answered - call.asked))
                turns[name].append(calls)
            alone.append(library.seconds("call", other.url, _main(turns["ours"][-1]).body.decode()))
        memory = {name: held(client.process.pid) for name, (client, _, _) in agents.items()}
        long: dict[str, list[float]] = {name: [] for name in [*agents, LIBRARY]}
        for _ in range(setting.rounds(LONG_TURNS)):
            for name, (client, session, _) in agents.items():
                before = worked(client.process.pid)
                client.prompt(session, LONG)
                long[name].append(worked(client.process.pid) - before)
            request = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": LONG}]})
            long[LIBRARY].append(library.seconds("worked", other.url, request))
        played = {name: _Played(own[name], turns[name], memory[name], long[name]) for name in agents}
        return played, statistics.median(alone[1:]), statistics.median(long[LIBRARY][1:])


def _commands(setting: Setting, place: Path) -> dict[str, tuple[Sequence[str], Mapping[str, str]]]:
    """How each agent is started, and with which variables; `{url}` stands for its server."""
    model = ("--model", "provider:openai-chat:gpt-4o")
    commands: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {
        name: ((checkout.agent, *model), {}) for name, checkout in setting.checkouts.items()
    }
    if modules := peer_package("goose", GOOSE):
        home = str(place / "goose")  # nothing of the user's own settings, and nothing is left in them
        places = {"HOME": home, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home, "XDG_STATE_HOME": home}
        provider = {"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "gpt-4o", "OPENAI_HOST": "{url}"}
        quiet = {"GOOSE_DISABLE_KEYRING": "1", "GOOSE_TELEMETRY_ENABLED": "false"}
        binary = modules / GOOSE.rpartition("@")[0] / "bin" / "goose"
        commands["goose"] = ((str(binary), "acp"), {**places, **provider, **quiet})
    return commands


def _main(calls: Sequence[Call]) -> Call:
    """The request that carries the conversation: the longest."""
    return max(calls, key=lambda call: len(call.body))


def _read(call: Call) -> str:
    body = json.loads(call.body)
    return tools_of(body) + text_of(body)
