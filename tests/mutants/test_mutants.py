"""The drawing, the changes, and a tiny tree with a mutant that is killed, one that survives, and one that hangs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.mutants.places import mutate, places
from tests.mutants.recording import Recorded
from tests.mutants.rooms import ROOMS, ROOT
from tests.mutants.sampling import Equivalent, draw, equivalents, found_again, stale

_PACKAGE = Path(__file__).parent


def changes(text: str) -> list[tuple[str, str]]:
    return [(place.kind, place.change) for place in places(text.encode())]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = b  <  c", ("operator", "b < c => b <= c")),
        ("a = (b) is  not (c)", ("operator", "b) is not (c => b) is (c")),
        ("a = b and c or d", ("operator", "b and c or d => b and c and d")),
        ("a = b - 1", ("operator", "b - 1 => b + 1")),
        ("if a:\n    b = 1", ("condition", "a => not (a)")),
        ("while a < b:\n    a = f()", ("condition", "a < b => not (a < b)")),
        ("a = not b", ("condition", "not b => (b)")),
        ("a = [b for b in c if b]", ("condition", "b => not (b)")),
        ("a = b if c else d", ("condition", "c => not (c)")),
        ("a.b = c", ("statement", "a.b = c => pass")),
        ("def f():\n    return 1", ("statement", "return 1 => pass")),
        ("f(a,\n  b)", ("arguments", "a, b => b, a")),
        ("f(é=a, b=c)", ("arguments", "a, b=c => c, b=a")),
        ("async def f():\n    await g()", ("await", "await g() => g()")),
        ("os.fsync(a)", ("fsync", "os.fsync(a) => pass")),
        ("try:\n    a = 1\nfinally:\n    f()\n    g()", ("finally", "f() g() => pass")),
    ],
)
def test_changes(text: str, expected: tuple[str, str]) -> None:
    assert expected in changes(text)


@pytest.mark.parametrize(
    "text",
    [
        '"""A text."""',
        "a: int | str",
        "a = Big | None",
        "def f(a: b | c = 1) -> d | e: ...",
        "if TYPE_CHECKING:\n    f(a, b)",
        "_logger.warning(a, b)",
        "a = max(b, c)",
        "a = cast(b, c)",
        "a = f(b, b)",
        "def f():\n    return",
    ],
)
def test_no_place(text: str) -> None:
    assert changes(text) == []


def test_a_change_keeps_the_rest_of_the_source() -> None:
    source = "# é\nif a == b:  # why\n    f(a, b)\n".encode()
    texts = {mutate(source, place) for place in places(source)}
    assert texts == {
        "# é\nif a != b:  # why\n    f(a, b)\n".encode(),
        "# é\nif a == b:  # why\n    f(b, a)\n".encode(),
        "# é\nif a == b:  # why\n    pass\n".encode(),
    }


def test_a_change_that_is_not_python_is_no_mutant() -> None:
    source = b"for a in b:\n    break\n"
    (place,) = places(source)
    assert mutate(source, place) == b"for a in b:\n    pass\n"
    assert mutate(source, place._replace(after="(")) is None


def test_a_seed_draws_the_same_places_again() -> None:
    room = ROOMS[-2]
    drawn = draw(room, 1, 8)
    assert drawn == draw(room, 1, 8)
    assert drawn != draw(room, 2, 8)
    assert len(set(drawn)) == 8


def test_every_sample_of_the_store_has_an_fsync() -> None:
    kinds = {mutant.place.kind for mutant in draw(ROOMS[0], 1, 3)}
    assert {"fsync", "finally"} <= kinds


def test_rooms_name_files_that_exist() -> None:
    for room in ROOMS:
        for pattern in (*room.modules, *room.tests, *room.beside):
            assert list(ROOT.glob(pattern.partition("::")[0])), pattern


def test_equivalent_rows_have_a_place_and_a_reason() -> None:
    assert stale(equivalents()) == []


def test_a_row_without_its_place_is_stale() -> None:
    (mutant,) = draw(ROOMS[0], 1, 1)
    row = Equivalent(mutant.module, mutant.place.function, mutant.place.change, "The same.")
    gone = Equivalent(mutant.module, "nowhere", mutant.place.change, "The same.")
    without = Equivalent(mutant.module, mutant.place.function, mutant.place.change, "")
    assert stale([row, gone, without]) == [gone, without]


def test_a_place_is_found_again_after_lines_have_moved() -> None:
    (mutant,) = draw(ROOMS[0], 1, 1)
    moved = mutant._replace(place=mutant.place._replace(first_line=1, start=0))
    gone = mutant._replace(place=mutant.place._replace(before="gone"))
    assert found_again([moved, gone]) == [mutant]


def test_a_place_that_only_an_import_runs_has_the_tests_of_its_module() -> None:
    recorded = Recorded({"near": 0.1, "far": 0.2}, {"a.py": {9: ["near"]}, "b.py": {1: ["far"]}})
    in_function, at_top = places(b"def f():\n    return 1\n\na = b + c\n")
    assert (in_function.function, at_top.function) == ("f", "")
    assert recorded.tests_of("a.py", in_function) == recorded.tests_of("a.py", at_top) == ["near"]
    assert recorded.tests_of("c.py", in_function) == []


_PRODUCT = """\
import time


def doubled(a):
    return a * 2


def waited(a):
    while a:
        a -= 1
        time.sleep(0.01)
    return a


def in_a_process():
    return 1


if __name__ == "__main__":
    print(in_a_process())
"""

_TESTS = """\
import subprocess, sys
import product


def test_doubled():
    assert product.doubled(0) == 0


def test_waited():
    subprocess.Popen(["sleep", "98765.4"], start_new_session=True)
    assert product.waited(3) == 0
"""

_TESTS_BESIDE = """\
import subprocess, sys


def test_in_a_process():
    assert subprocess.run([sys.executable, "-m", "product"], capture_output=True).stdout == b"1\\n"
"""

_DRIVER = """\
from pathlib import Path
from tests.mutants import trying
from tests.mutants.places import places
from tests.mutants.rooms import Room
from tests.mutants.sampling import Mutant

room = Room("tiny", ("product.py",), ("tests/test_product.py",), ("tests/test_beside.py",))
wanted = {"a * 2 => a // 2", "a -= 1 => pass", "return 1 => pass"}
found = [Mutant("tiny", "product.py", place) for place in places(Path("product.py").read_bytes())]
drawn = [mutant for mutant in found if mutant.place.change in wanted]
for result in trying.results([room], drawn, Path.cwd(), Path("build"), limit=trying.Limit(15.0, 0.0)):
    print(result.verdict, result.tests, result.mutant.place.change, sep="|")
"""


@pytest.mark.slow
def test_a_tiny_tree(tmp_path: Path) -> None:
    (tmp_path / "tests/mutants").mkdir(parents=True)
    for module in _PACKAGE.glob("*.py"):
        if module.name != Path(__file__).name:
            shutil.copy(module, tmp_path / "tests/mutants")
    (tmp_path / "product.py").write_text(_PRODUCT)
    (tmp_path / "tests/test_product.py").write_text(_TESTS)
    (tmp_path / "tests/test_beside.py").write_text(_TESTS_BESIDE)
    (tmp_path / "rewindow_pytest.py").touch()  # the plugin that the environment announces
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (tmp_path / ".gitignore").write_text("build\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    run = subprocess.run(
        [sys.executable, "-c", _DRIVER], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.stderr == ""
    assert sorted(run.stdout.splitlines()) == [
        "killed|3|return 1 => pass",
        "survived|2|a * 2 => a // 2",
        "timed out|2|a -= 1 => pass",
    ]
    assert not any(each.info["cmdline"] == ["sleep", "98765.4"] for each in psutil.process_iter(["cmdline"]))
    assert (tmp_path / "product.py").read_text() == _PRODUCT
    assert list((tmp_path / "build").iterdir()) == [*(tmp_path / "build").glob("*.json")]
