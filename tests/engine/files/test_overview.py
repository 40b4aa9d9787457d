"""Overviews: much used files come first, in any order of input, within any budget."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.ids import ObjId, PayloadId
from engine.core.tokens import count
from engine.files.overview import Declared, ImportTargets, Ranked, overview, packed, ranked, targets_of, unpacked
from engine.log.events.nodes import AsyncPayloadApplied, AsyncPayloadDropped, GroupRecomputed
from engine.log.statements import UpdatePayload
from tests.support.boards import Desk

FILES = {
    "app.py": Declared(("main",), {"Store": 4, "parse": 2}, ("store", "parser")),
    "cli.py": Declared(("run",), {"main": 1, "Store": 1}, (".app", ".store")),
    "parser.py": Declared(("parse", "helper"), {"Token": 9}),
    "store.py": Declared(("Row", "Store"), {"Token": 1}, ("./token",)),
    "token.py": Declared(("Token",), {}),
}


def test_much_used_files_come_first_with_names_by_use() -> None:
    found = ranked(FILES)
    assert found[0] == Ranked("token.py", ("Token",))
    assert found[-1].path == "cli.py"
    assert next(each for each in found if each.path == "store.py").names == ("Store", "Row")


def test_a_name_counts_for_the_imported_file() -> None:
    both = Declared(("get_origin", "Origin"), {})
    users = {f"z/user_{number}.py": Declared((), {"get_origin": 9}, (".typing",)) for number in range(5)}
    found = ranked({"a/typing.py": both, "z/typing.py": both, **users})
    assert found[0] == Ranked("z/typing.py", ("get_origin", "Origin"))
    assert next(each for each in found if each.path == "a/typing.py").names == ("get_origin", "Origin")


def test_what_a_file_calls_its_local_variables_refers_to_nothing() -> None:
    users = {f"user_{number}.py": Declared((), {"text": 50, "rows": 20, "Row": 1}, ("store",)) for number in range(9)}
    found = ranked({"test_a.py": Declared(("text", "rows"), {}), "store.py": Declared(("Row",), {}), **users})
    assert found[0].path == "store.py"
    assert found[1].path == "test_a.py"
    alone = ranked(
        {
            "a.go": Declared((), {"text": 50, "parseRow": 1}),
            "b.go": Declared(("text",), {}),
            "c.go": Declared(("parseRow",), {}),
        }
    )
    assert alone[0].path == "c.go"


def test_nothing_refers_to_the_keys_of_data_and_to_headings() -> None:
    users = {f"user_{number}.py": Declared((), {"long_name": 9}) for number in range(9)}
    found = ranked({"z.json": Declared(("long_name",), {}, is_code=False), **users})
    assert found[-1] == Ranked("z.json", ("long_name",))


def test_of_names_that_nobody_uses_a_few_are_said() -> None:
    names = ("T", "used_name", *(f"name_{number}" for number in range(30)))
    files = {"a.py": Declared(names, {}), "b.py": Declared((), {"used_name": 1}, (".a",))}
    assert ranked(files)[0].names == ("used_name", "name_0", "name_1", "name_2")
    long = Declared(tuple(f"test_{'very_' * 8}long_{number}" for number in range(9)), {})
    assert len(ranked({"a.py": long})[0].names) == 1


@given(st.permutations(sorted(FILES)))
def test_the_order_of_the_files_changes_nothing(order: list[str]) -> None:
    assert ranked({path: FILES[path] for path in order}) == ranked(FILES)


_RANKED = st.lists(
    st.builds(Ranked, st.text("ab/漢.😀", min_size=1, max_size=20), st.lists(st.text("xyz_", max_size=9)).map(tuple)),
    max_size=30,
)


@given(_RANKED, st.integers(1, 400))
def test_no_overview_is_above_its_budget(files: list[Ranked], budget: int) -> None:
    made = overview(files, len(files) + 3, ("changed: a.py\n",), budget, count)
    for index, tokens in enumerate(made.tokens):
        found = made.show(index)
        assert found.tokens == count(found.text) <= tokens <= budget


@given(_RANKED, st.integers(2, 500))
def test_packed_data_is_a_beginning_within_its_size(files: list[Ranked], most: int) -> None:
    data = packed(files, most)
    assert len(data) <= most
    assert unpacked(data) == tuple(files[: len(unpacked(data))])


@pytest.fixture
def desk(desk: Desk, tmp_path: Path) -> Desk:
    (tmp_path / "src").mkdir()
    for number in range(200):
        desk.write(f"src/module_{number:03}.py", f"x = {number}\n")
    desk.run("g = group('src', tokens=300)")
    return desk


def _payload(desk: Desk, data: bytes, **changed: object) -> UpdatePayload:
    (want,) = desk.board.wants()
    fields = {"obj_id": want.obj_id, "payload_kind": want.payload_kind, "basis": want.basis} | changed
    return UpdatePayload(payload_id=PayloadId("p1"), prepared_at=1.0, payload_hash="h", data=data, **fields)


def test_a_prepared_overview_stands_in_place_of_the_listing(desk: Desk) -> None:
    assert "src/ 200 files" in desk.text("g")
    data = packed([Ranked("src/module_007.py", ("Engine", "run")), Ranked("src/module_003.py", ("parse",))], 10_000)
    desk.round += 1
    events = desk.board.tick(desk.round, desk.seconds, (_payload(desk, data),))
    assert any(isinstance(event, AsyncPayloadApplied) for event in events)
    assert "src/module_003.py: parse\nsrc/module_007.py: Engine run\n... 198 files" in desk.text("g")
    assert desk.board.wants() == ()
    desk.write("src/module_003.py", "other = 1\n")
    assert any(isinstance(event, GroupRecomputed) for event in desk.tick())
    assert "src/module_003.py: parse\n" in desk.text("g")
    assert "changed: src/module_003.py\n" in desk.text("g")
    assert [want.work for want in desk.board.wants()] == ["index"]
    desk.round += 1
    data = packed([Ranked("src/module_003.py", ("other",))], 10_000)
    desk.board.tick(desk.round, desk.seconds, (_payload(desk, data),))
    assert "src/module_003.py: other\n" in desk.text("g")
    assert desk.board.wants() == ()
    desk.write("src/new.py", "x = 1\n")
    desk.tick()
    assert [want.work for want in desk.board.wants()] == ["index"]


@pytest.mark.parametrize(
    ("data", "changed", "reason"),
    [
        (b"[]", {"obj_id": ObjId("group-9.9")}, "vanished"),
        (b"no json", {}, "unusable"),
        (b"[]", {"payload_kind": "diff"}, "unusable"),
    ],
)
def test_what_cannot_be_applied_is_dropped_with_the_reason(
    desk: Desk, data: bytes, changed: dict[str, object], reason: str
) -> None:
    events = desk.board.tick(1, desk.seconds, (_payload(desk, data, **changed),))
    assert [event.reason for event in events if isinstance(event, AsyncPayloadDropped)] == [reason]
    assert "src/ 200 files" in desk.text("g")


def test_an_overview_of_other_files_is_stale(desk: Desk) -> None:
    payload = _payload(desk, b"[]")
    desk.write("src/new.py", "x = 1\n")
    desk.tick()
    events = desk.board.tick(9, desk.seconds, (payload,))
    assert [event.reason for event in events if isinstance(event, AsyncPayloadDropped)] == ["stale"]


@pytest.mark.parametrize("source", ["g.SetLod(2)", "g.Pause()", "g.Remove('src')"])
def test_who_shows_no_overview_wishes_for_none(desk: Desk, source: str) -> None:
    assert len(desk.board.wants()) == 1
    desk.run(source)
    assert desk.board.wants() == ()


PATHS = (
    "engine/__init__.py",
    "engine/ids.py",
    "engine/nodes/__init__.py",
    "engine/nodes/base.py",
    "engine/nodes/ids.py",
    "v1/version.py",
    "version.py",
    "web/src/index.ts",
    "web/src/bar.tsx",
    "web/src/z/index.ts",
    "java/com/acme/Store.java",
    "go/store/open.go",
    "go/store/close.go",
    "c/include/foo/bar.h",
    "rust/src/nodes/mod.rs",
    "rust/src/nodes/base.rs",
    "php/src/Acme/Row.php",
)
TARGETS = ImportTargets(PATHS)


@pytest.mark.parametrize(
    ("path", "name", "found"),
    [
        ("engine/nodes/base.py", "..ids", ["engine/ids.py"]),
        ("engine/nodes/base.py", ".ids", ["engine/nodes/ids.py"]),
        ("engine/nodes/base.py", "engine.nodes.ids", ["engine/nodes/ids.py"]),
        ("engine/ids.py", "engine.nodes", ["engine/nodes/__init__.py"]),
        ("v1/main.py", "pydantic.v1.version", ["v1/version.py"]),
        ("main.py", "pydantic.version", ["version.py"]),
        ("main.py", "os.path", []),
        ("web/src/index.ts", "./bar", ["web/src/bar.tsx"]),
        ("web/src/z/index.ts", "../bar.js", ["web/src/bar.tsx"]),
        ("web/src/bar.tsx", "./z", ["web/src/z/index.ts"]),
        ("java/com/acme/App.java", "com.acme.Store", ["java/com/acme/Store.java"]),
        ("go/app/main.go", "example.com/go/store", ["go/store/close.go", "go/store/open.go"]),
        ("c/src/main.c", "foo/bar.h", ["c/include/foo/bar.h"]),
        ("rust/src/main.rs", "crate::nodes::base::Node", ["rust/src/nodes/base.rs"]),
        ("php/src/App.php", "Acme\\Row", ["php/src/Acme/Row.php"]),
        ("main.py", ".......ids", []),
        ("main.py", "", []),
        ("main.py", "...", []),
    ],
)
def test_an_import_leads_to_its_file_or_folder(path: str, name: str, found: list[str]) -> None:
    assert sorted(TARGETS.of(path, [name])) == found


def test_no_file_imports_itself() -> None:
    assert TARGETS.of("engine/ids.py", ["engine.ids", ".ids"]) == frozenset()


@given(
    st.dictionaries(
        st.text("ab/._é", min_size=1, max_size=8), st.lists(st.text("ab/.\\:_é*{}", max_size=8), max_size=4), max_size=9
    )
)
def test_random_imports_lead_to_existing_files(files: dict[str, list[str]]) -> None:
    for path, found in targets_of(files).items():
        assert found <= set(files) - {path}
