"""Whatever happens in a session, its next prompt shows each handle once and as it is, and each change once."""

from __future__ import annotations

from ast import literal_eval
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from engine.core.execution import ReplayMode
from tests.support.examples import examples
from tests.support.projection_reference import PROBE, digest, problems
from tests.support.timeline_life import Life, WatchedInProcess

_FILES: Final = ("a.txt", "b.txt")
_ASKED: Final = (0, 40, 400, 2_000, 4_000)
_name, _file = st.sampled_from(["va", "vb", "vc"]), st.sampled_from(_FILES)
_lod, _tokens = st.integers(0, 3), st.sampled_from([40, 400, 2_000])


def _of(template: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return st.builds(template.format, *parts)


_SOURCES = st.one_of(
    _of("{} = view('{}')", _name, _file),
    _of("{} = view('{}', freq='Sync')", _name, _file),
    _of("{} = view('{}', lod={}, tokens={})", _name, _file, _lod, _tokens),
    _of("{} = {}", _name, _name),
    _of("del {}", _name),
    _of("held = [{}]; del {}", _name, _name),
    _of("{}.{}(); None", _name, st.sampled_from(["Run", "Pause", "Refresh"])),
    _of("{}.SetLod({}); None", _name, _lod),
    _of("{}.SetTokens({}); None", _name, _tokens),
    _of("show({})", _name),
    _of("show({}, lod={})", _name, _lod),
    _of("show({}, lod={}, tokens={})", _name, _lod, st.sampled_from([40, 400])),
    _of("pin({}, 'why'); None", _name),
    _of("unpin({}); None", _name),
    _of("g = group({}, {}); None", _name, _name),
    _of("h = group('*.txt', tokens={}); None", st.sampled_from([400, 2_000])),
    _of("g.{}; None", st.sampled_from(["Add(va)", "SetLod(0)", "SetLod(2)", "Pause()", "Run()", "Refresh()"])),
    st.just("tick(); None"),
    st.just("r = __import__('os').urandom(4).hex()"),
    st.just("1 / 0"),
    st.just("__import__('pathlib').Path('a.txt').read_text()"),
)


class ProjectionMachine(RuleBasedStateMachine):
    """One session, and all contents that its files had."""

    def __init__(self) -> None:
        super().__init__()
        self.life = Life(WatchedInProcess, {"context_budget": 400_000})
        self.contents: dict[str, str] = {}

    @initialize()
    def begin(self) -> None:
        for name in _FILES:
            self.change_a_file(name, ["one", "two"])
        self.life.open()
        self.life.session.set_option("ask_about", "acts")
        self.life.say_as_model("va = view('a.txt', freq='Sync'); vb = view('b.txt'); vc = va")

    def teardown(self) -> None:
        self.life.close()

    @rule(sources=st.lists(_SOURCES, min_size=1, max_size=3))
    def run(self, sources: list[str]) -> None:
        for source in sources:
            self.life.say(f"/run {source}")

    @rule(source=_SOURCES)
    def run_as_model(self, source: str) -> None:
        self.life.say_as_model(source)

    @rule(name=_file, lines=st.lists(st.sampled_from(["one", "two", "three", "four"]), max_size=5))
    def change_a_file(self, name: str, lines: list[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        self.contents[digest(text)] = text
        (self.life.project / name).write_text(text)

    @rule(name=_file)
    def remove_a_file(self, name: str) -> None:
        (self.life.project / name).unlink(missing_ok=True)

    @rule()
    def tick(self) -> None:
        self.life.say("/tick")

    @rule()
    def ask(self) -> None:
        self.life.say("Go on.")

    @rule(k=st.integers(1, 40), mode=st.sampled_from(["recorded", "live", "dry"]))
    def replay(self, k: int, mode: ReplayMode) -> None:
        count = len(self.life.session.cells)
        self.life.say(f"/replay {1 + k % count} --{mode}")

    @rule(k=st.integers(0, 40))
    def rewind(self, k: int) -> None:
        self.life.say(f"/rewind {1 + k % len(self.life.session.cells)}")

    @rule(k=st.integers(0, 40), source=_SOURCES)
    def edit(self, k: int, source: str) -> None:
        self.life.say(f"/edit {1 + k % len(self.life.session.cells)}\n{source}")

    @rule()
    def condense(self) -> None:
        self.life.say("/compact")

    @rule()
    def open_again(self) -> None:
        self.life.open_again()

    @invariant()
    def the_prompt_is_true(self) -> None:
        if not self.life.has_environment:
            return
        projection = self.life.wait(self.life.session.projection)
        nodes = literal_eval(self.life.wait(self._probe))
        found = problems(projection.prompt, self.life.session.events, nodes, self.contents)
        assert not found, "\n".join([*found, projection.prompt.tail])

    async def _probe(self) -> str:
        outcome = await self.life.environment.probe(PROBE.replace("ASKED", repr(_ASKED)))
        assert outcome.exception is None, outcome.exception
        return outcome.stdout.text


def test_each_prompt_is_true() -> None:
    run_state_machine_as_test(ProjectionMachine, settings=settings(examples(0.1), stateful_step_count=12))


@pytest.mark.slow
def test_each_prompt_is_true_in_many_sessions() -> None:
    run_state_machine_as_test(ProjectionMachine, settings=settings(max_examples=2_000, stateful_step_count=20))
