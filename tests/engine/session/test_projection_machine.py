"""Whatever happens in a session, its next prompt shows each handle once and as it is, and each change once."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Collection
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from engine.files.globs import _MOST_SHOWN
from tests.support import held_nodes
from tests.support.examples import examples
from tests.support.held_nodes import Policy
from tests.support.larger_budgets import LINES, SIZES, losses
from tests.support.projection_reference import Nodes, digest, problems
from tests.support.timeline_life import Life, WatchedInProcess
from tests.support.told import conversation

_FILES: Final = ("a.txt", "b.py")
_RANDOM: Final = "r = __import__('os').urandom(4).hex()"
_UNVIEWED: Final = "c.txt"
_MANY: Final = [f"many/{number}.txt" for number in range(_MOST_SHOWN + 1)]
"""As many as are listed, and not shown one by one."""
_name, _file, _any_file = (
    st.sampled_from(["va", "vb", "vc"]),
    st.sampled_from(_FILES),
    st.sampled_from([*_FILES, _UNVIEWED, _MANY[0]]),
)
_lod, _tokens = st.integers(0, 3), st.sampled_from([40, 400, 2_000])


_lines = st.none() | st.sampled_from([LINES[:2], LINES]) | st.lists(st.sampled_from(LINES), max_size=5)
_WAYS = st.sampled_from(
    [
        *("/replay {k}", "/replay {k} --live", "/replay {k} {k} --live", "/replay {k} --dry"),
        *("/rewind {k}", "/edit {k}\n{source}", "/compact", "load"),
    ]
)


def _of(template: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return st.builds(template.format, *parts)


_SHOWN = st.one_of(
    _of("show({})", _name),
    _of("show({}, lod={})", _name, _lod),
    _of("show({}, lod={}, tokens={})", _name, _lod, st.sampled_from([40, 400])),
    st.just("show(g)"),
)
_HANDLED = st.one_of(
    _of("{} = view('{}')", _name, _file),
    _of("{} = view('{}', freq='Sync')", _name, _file),
    _of("{} = view('{}', lod={}, tokens={})", _name, _file, _lod, _tokens),
    _of("{} = {}", _name, _name),
    _of("{}.{}(); None", _name, st.sampled_from(["Run", "Run", "Pause", "Refresh"])),
    _of("{}.SetLod({}); None", _name, _lod),
    _of("{}.SetTokens({}); None", _name, _tokens),
    _of("pin({}, 'why'); None", _name),
    _of("unpin({}); None", _name),
    _of("g = group({}, {}); None", _name, _name),
    _of("g.{}; None", st.sampled_from(["Add(va)", "SetLod(0)", "SetLod(2)", "Pause()", "Run()", "Refresh()"])),
)
_OTHER = st.sampled_from(
    [
        "h = group('[abc].*'); None",
        "h = group('c.txt', 'many'); None",
        "tick(); None",
        _RANDOM,
        "1 / 0",
        "__import__('pathlib').Path('a.txt').read_text()",
        "held = [va]; del va",
        "va = vb = vc = None",
    ]
)
_SOURCES = st.one_of(_SHOWN, _HANDLED, _HANDLED, _OTHER)


class ProjectionMachine(RuleBasedStateMachine):
    """One session, and all contents that its files had."""

    def __init__(self) -> None:
        super().__init__()
        self.life = Life(WatchedInProcess, {"context_budget": 400_000})
        self.contents: dict[str, str] = {}
        self.bases: dict[str, str] = {}

    @initialize()
    def begin(self) -> None:
        (self.life.project / "many").mkdir()
        for name in (*_FILES, _UNVIEWED, *_MANY):
            self.put(name, LINES if name == "b.py" else LINES[:2])
        self.life.open()
        self.life.session.set_option("ask_about", "acts")
        self.life.say_as_model("va = view('a.txt', freq='Sync'); vb = view('b.py').Run(); vc = va; g = group(vb)")
        self.life.say_as_model(f"h = group('c.txt', 'many'); {_RANDOM}")

    def teardown(self) -> None:
        self.life.close()

    @rule(sources=st.lists(_SOURCES, min_size=1, max_size=3))
    def run(self, sources: list[str]) -> None:
        for source in sources:
            self.life.say(f"/run {source}")

    @rule(source=_SOURCES)
    def run_as_model(self, source: str) -> None:
        self.life.say_as_model(source)

    @rule(changes=st.lists(st.tuples(_any_file, _lines), min_size=1, max_size=3), tick=st.booleans())
    def change_files(self, changes: list[tuple[str, list[str] | None]], tick: bool) -> None:
        """Change or remove files, with a tick after each or none."""
        for name, lines in changes:
            self.put(name, lines)
            if tick:
                self.life.say("/tick")

    def put(self, name: str, lines: list[str] | None) -> None:
        path = self.life.project / name
        if lines is None:
            path.unlink(missing_ok=True)
            return
        text = "".join(f"{line}\n" for line in lines)
        self.contents[digest(text)] = text
        path.write_text(text)

    @rule()
    def ask(self) -> None:
        self.life.say("Go on.")

    @rule(k=st.integers(0, 40), ways=st.lists(_WAYS, min_size=1, max_size=2), source=_SOURCES)
    def go_back(self, k: int, ways: list[str], source: str = "") -> None:
        for way in ways:
            if way == "load":
                self.life.open_again()
            else:
                self.life.say(way.format(k=1 + k % len(self.life.session.cells), source=source))

    @invariant()
    def the_prompt_is_true(self) -> None:
        if not self.life.has_environment:
            return
        projection = self.life.wait(self.life.session.projection)
        told = conversation(self.life.session.events)
        nodes = self.nodes({(each.lod, each.budget) for asked in told.asked.values() for each in asked})
        found = problems(projection.prompt, told, nodes, self.contents)
        for basis, files in (want for node in nodes.values() for want in node["wants"]):
            if self.bases.setdefault(basis, files) != files:
                found.append("an overview of files that have changed counts as theirs")
        assert not found, "\n".join([*found, projection.prompt.tail])

    @rule(lod=st.integers(0, 3))
    def more_budget_shows_no_less(self, lod: int) -> None:
        policies = {(lod, tokens) for tokens in SIZES}
        for node in self.nodes(policies).values() if self.life.has_environment else ():
            found = losses(node, lod)
            assert not found, (node["name"], found)

    def nodes(self, policies: Collection[Policy]) -> Nodes:
        async def probe() -> str:
            outcome = await self.life.environment.probe(held_nodes.source(policies))
            assert outcome.exception is None, outcome.exception
            return outcome.stdout.text

        return literal_eval(self.life.wait(probe))


def test_what_a_live_replay_shows_again_was_shown() -> None:
    machine = ProjectionMachine()
    machine.begin()
    try:
        machine.run(["show(va)"])
        machine.ask()
        machine.change_files([("a.txt", [])], tick=False)
        machine.ask()
        machine.run(["show(va)"])
        for read_first in (False, True):
            if read_first:
                machine.ask()
            machine.go_back(2, ["/replay {k} --live"])
            machine.the_prompt_is_true()
            machine.ask()
            machine.the_prompt_is_true()
    finally:
        machine.teardown()


def test_a_live_replay_shows_nobody_what_is_new() -> None:
    machine = ProjectionMachine()
    machine.begin()
    try:
        machine.put("b.py", LINES[:1])
        for _ in range(2):
            machine.go_back(0, ["/replay {k} --live"])
            machine.the_prompt_is_true()
        machine.change_files([("b.py", [])], tick=True)
        machine.the_prompt_is_true()
    finally:
        machine.teardown()


def test_nothing_is_compared_with_what_a_live_replay_showed() -> None:
    machine = ProjectionMachine()
    machine.begin()
    try:
        for lines in (LINES[1:2], LINES[:1]):
            machine.change_files([("a.txt", lines)], tick=True)
            machine.go_back(0, ["/replay {k} {k} --live"])
            machine.run(["show(va)"])
            machine.change_files([("a.txt", [])], tick=True)
            machine.the_prompt_is_true()
    finally:
        machine.teardown()


def test_a_statement_after_a_live_replay_shows_nobody_what_it_did_not_show_then() -> None:
    machine = ProjectionMachine()
    machine.begin()
    try:
        machine.run_as_model("show(va)")
        machine.change_files([("a.txt", LINES)], tick=False)
        machine.ask()
        machine.go_back(1, ["/replay {k} {k} --live"])
        machine.the_prompt_is_true()
        machine.change_files([("a.txt", LINES[:2])], tick=True)
        machine.the_prompt_is_true()
    finally:
        machine.teardown()


def test_no_model_has_read_what_an_edit_shows() -> None:
    machine = ProjectionMachine()
    machine.begin()
    try:
        machine.run_as_model("show(va)")
        machine.change_files([("a.txt", [])], tick=False)
        machine.run_as_model("show(va)")
        machine.go_back(1, ["/edit {k}\n{source}"], "show(va)")
        machine.change_files([("a.txt", LINES[:1])], tick=True)
        machine.the_prompt_is_true()
    finally:
        machine.teardown()


def test_a_chosen_budget_goes_before_one_that_nobody_chose() -> None:
    machine = ProjectionMachine()
    machine.begin()
    try:
        machine.run(["vc = view('a.txt', lod=1)", "show(vc, lod=1)", "show(vc)"])
        machine.the_prompt_is_true()
    finally:
        machine.teardown()


def test_each_prompt_is_true() -> None:
    run_state_machine_as_test(ProjectionMachine, settings=settings(examples(0.2), stateful_step_count=20))


@pytest.mark.slow
def test_each_prompt_is_true_in_many_sessions() -> None:
    run_state_machine_as_test(ProjectionMachine, settings=settings(max_examples=2_000, stateful_step_count=20))
