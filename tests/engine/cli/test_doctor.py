"""`rewindow doctor`: what it finds where something is amiss."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from engine.cli import doctor
from engine.cli.doctor import (
    LITTLE,
    NO_CHECKPOINTS,
    SHORT_OF_MEMORY,
    TOO_LITTLE,
    Finding,
    own_installation_findings,
    processes_of,
    room,
    sandbox_findings,
    way_to_mounts,
)
from engine.cli.output import size
from engine.core.domain import LAYERS, Layer, is_held
from engine.core.key_file import StoredKeys, change_keys, key_path, warning_about
from engine.core.settings import SETTINGS
from engine.files.installation import Installation
from engine.files.search.commands import INSTALL
from engine.log.store.maintenance import contents_taken, faults
from engine.session.working_tree.baseline import FOLDER
from tests.support.archives import answered, values_kept
from tests.support.commands import Home
from tests.support.stores import A, Recorder, message, row


def report(home: Home, **variables: str) -> tuple[int, dict[str, list[tuple[str, str]]]]:
    """The exit code, and grade with text by check."""
    done = home.run("doctor", "--json", **variables)
    assert done.stderr == ""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in json.loads(done.stdout):
        found.setdefault(line["check"], []).append((line["grade"], line["text"]))
    return done.returncode, found


def test_where_all_is_well_nothing_fails(home: Home) -> None:
    code, found = report(
        home,
        REWINDOW_MAX_ROUNDS="7",
        REWINDOW_MODELS_WITHOUT_TOOLS="openai:llama*,mine",
        MY_API_KEY="a value nobody may see",
        DB_PASSWORD="x",
        SORT_KEY="created_at",
    )
    assert code == 0
    grades = {grade for findings in found.values() for grade, _ in findings}
    assert grades == {"ok", "note"}
    options = {text for _, text in found["configuration"]}
    assert "max_rounds = 7  (from REWINDOW_MAX_ROUNDS)" in options
    assert "models_without_tools = openai:llama*, mine  (from REWINDOW_MODELS_WITHOUT_TOOLS)" in options
    others = len(SETTINGS) - sum(" = " in text for text in options)
    assert f"the other {others} settings have their defaults (`rewindow help configuration`)" in options
    assert found["secrets"][0][1].endswith(": DB_PASSWORD, MY_API_KEY, SORT_KEY")
    assert found["secrets"][1] == (
        "note",
        "variables not redacted, because their values are shorter than 8 characters: DB_PASSWORD",
    )
    assert found["secrets"][2][1].endswith(
        "SORT_KEY; if a variable is not secret, add it to the option hidden_names after a `!`"
    )
    assert "a value nobody" not in str(found)


def test_stored_keys_are_named_and_their_file_is_checked(home: Home) -> None:
    change_keys(home.variables, lambda _: StoredKeys({"openai": "sk-of-a-file-0123"}, ("anthropic",)))
    key_path(home.variables).chmod(0o644)
    _, found = report(home)
    assert found["secrets"][0] == ("note", warning_about(home.variables))
    assert found["secrets"][1] == ("ok", "stored keys of anthropic, openai (`rewindow auth list`)")
    assert "sk-of-a-file" not in str(found)
    assert found["store"][0][1].startswith("3 sessions, ")
    assert found["integrity"] == [("ok", "the database is intact")]
    assert found["in use"] == [("ok", "no session is in use")]
    assert all(any(f"layer {layer}: " in text for _, text in found["sandbox"]) for layer in LAYERS)
    assert "the layer could not be entered" not in str(found["sandbox"]), "a layer that the kernel has is in force"
    assert found["other processes"][0][0] == "ok"
    assert "loaded in" in found["tokens"][0][1]
    assert "ran a statement" in found["worker"][0][1]
    assert found["outlines"][0] == ("ok", "outlines of 23 languages and formats")


@pytest.mark.parametrize(
    ("layers", "found", "grades"),
    [
        (LAYERS, Installation(), []),
        (LAYERS, Installation(("/p/.venv",)), ["ok"]),
        (("landlock", "seccomp"), Installation(("/p/.venv",)), ["note"]),
        (LAYERS, Installation(open=("/p/.venv",)), ["note"]),
    ],
)
def test_own_installation_in_the_directory_is_named(
    layers: tuple[Layer, ...], found: Installation, grades: list[str]
) -> None:
    findings = [*own_installation_findings(layers, found)]
    assert [each.grade for each in findings] == grades
    assert all("/p/.venv" in each.text for each in findings)


@pytest.mark.parametrize(("setting", "named"), [("1\n", True), ("0\n", False), (None, False)])
def test_the_way_to_the_layer_mounts_depends_on_apparmor(tmp_path: Path, setting: str | None, named: bool) -> None:
    if setting is not None:
        (tmp_path / "setting").write_text(setting)
    assert ("`userns,`" in way_to_mounts(str(tmp_path / "setting"))) == named


def test_a_missing_layer_mounts_names_keys_git_and_the_way_to_get_it() -> None:
    (note,) = (
        each.text for each in sandbox_findings(("landlock", "seccomp")) if "sandbox, layer mounts: " in each.text
    )
    assert "stored keys" in note
    assert "git's configuration" in note
    assert note.endswith(way_to_mounts())


@pytest.mark.parametrize("missing", LAYERS)
def test_missing_sandbox_layer_is_named_with_its_consequence(missing: Layer) -> None:
    layers = tuple(layer for layer in LAYERS if layer != missing)
    first, *found = sandbox_findings(layers)
    assert first.grade == "note"
    assert ("a model's statements run in a sandbox" in first.text) == is_held(layers)
    (note,) = (finding.text for finding in found if f"layer {missing}: " in finding.text)
    assert "without it statements may " in note
    assert [finding.grade for finding in found if ": in force" in finding.text] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("layers", "rule", "grade", "said"),
    [
        (LAYERS, "auto", "ok", "a model's statements run in a sandbox"),
        (("landlock", "seccomp"), "auto", "note", "without the layer mounts: stored keys"),
        (LAYERS, "off", "note", "no sandbox, because the setting disables it (the kernel could sandbox statements)"),
        ((), "auto", "note", "no sandbox, because this kernel cannot sandbox statements: "),
        ((), "required", "failed", "sandbox = required: no model statement will run"),
    ],
)
def test_what_the_sandbox_comes_to_is_said_first(layers: tuple[Layer, ...], rule: str, grade: str, said: str) -> None:
    first, *_ = sandbox_findings(layers, rule)
    assert first.grade == grade
    assert said in first.text


def test_how_processes_are_bounded_is_said() -> None:
    assert processes_of(True).grade == "ok"
    assert "1,000" in processes_of(True).text
    assert processes_of(False).grade == "note"
    assert "counts" in processes_of(False).text


def test_a_grammar_that_does_not_load_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter_lua", None)
    said = [finding.text for finding in doctor.outlines() if finding.grade == "note"]
    assert any("reinstall the grammar: tree-sitter-lua for lua: " in text for text in said)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("openai:gpt*", "model provider:openai:llama3"),
        ("openai:llama*", "model provider:openai:llama3, which writes statements as text (models_without_tools)"),
    ],
)
def test_a_model_that_cannot_call_tools_is_named_as_that(
    monkeypatch: pytest.MonkeyPatch, names: str, said: str
) -> None:
    monkeypatch.setenv("REWINDOW_MODEL", "provider:openai:llama3")
    monkeypatch.setenv("REWINDOW_MODELS_WITHOUT_TOOLS", names)
    assert [finding.text for finding in doctor.model()] == [said]


def test_what_a_killed_agent_left_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not through a killed agent, because any command of any neighbour may be the one that ends what it left.
    monkeypatch.setattr(doctor, "left_behind", list)
    assert [finding.grade for finding in doctor.left_behind_processes()] == ["ok"]
    monkeypatch.setattr(doctor, "left_behind", lambda: [os.getpid()])
    (finding,) = doctor.left_behind_processes()
    assert finding.grade == "note"
    assert f"ending processes of a killed agent: {os.getpid()} (" in finding.text


@pytest.mark.slow
def test_what_is_amiss_is_named_with_what_to_do(home: Home) -> None:
    config = home.path / ".config" / "rewindow" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("context_budget = 5000\n")
    home.state.chmod(0o755)
    store = home.store()
    store.acquire(A, Recorder())
    (home.state / "sessions.db").chmod(0o644)
    code, found = report(home)
    assert code == 0
    assert found["permissions"] == [
        ("note", f"other users may read your sessions; run: chmod 700 {home.state}"),
        ("note", f"other users may read your sessions; run: chmod 600 {home.state / 'sessions.db'}"),
    ]
    assert found["in use"] == [("ok", f"session ses_a is in use by process {os.getpid()}")]
    assert ("ok", "context_budget = 5000  (from the config file)") in found["configuration"]
    store.close()


def test_what_the_past_takes_is_counted_once_for_all_sessions(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents_taken(home.state / "sessions.db", 20)
    assert before is not None
    with closing(home.store()) as store:
        both, values, answers = os.urandom(1000), os.urandom(2000), os.urandom(4000)
        for session in ("ses_x", "ses_y"):
            names = [store.blob_put(data) for data in (both, values, answers)]
            events = [answered(0, names[0]), values_kept(1, names[0], names[1]), answered(2, names[2])]
            store.add(row(session), [both, events[0], values, events[1], answers, events[2]])
    taken = contents_taken(home.state / "sessions.db", 20)
    assert taken is not None
    assert 7000 <= taken[0] - before[0] <= 7200
    assert 2000 <= taken[1] - before[1] <= 2050
    for name, value in {**home.variables, "REWINDOW_PAST_BYTES": "5000000"}.items():
        monkeypatch.setenv(name, value)
    kept_bytes, copies = map(size, taken)
    said = (
        f"{kept_bytes} saved for restoring variables, {copies} of it copies of values; "
        "past_bytes is 5.0 MB for each session"
    )
    assert list(doctor.past()) == [Finding("ok", said)]
    assert contents_taken(home.state, 20) is None


def test_the_space_of_comparisons_is_shown(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in home.variables.items():
        monkeypatch.setenv(name, value)
    assert list(doctor.comparisons()) == []
    (home.state / FOLDER).mkdir(parents=True)
    for name in ("a.db", "a.db-wal", "b.db"):
        (home.state / FOLDER / name).write_bytes(bytes(1_000_000))
    (finding,) = doctor.comparisons()
    assert finding.text.startswith(
        "3.0 MB of the state directory for finding changes by commands, in 2 working directories"
    )


def test_the_memory_for_checkpoints_is_shown(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**home.variables, "REWINDOW_CHECKPOINT_BYTES": "5000000"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(doctor, "is_short", lambda: False)
    monkeypatch.setattr(doctor, "free_memory", lambda: 3_000_000_000)
    said = "checkpoints may take 5.0 MB of memory (checkpoint_bytes); 3.0 GB are free"
    assert list(doctor.checkpoints()) == [Finding("ok", said)]
    monkeypatch.setattr(doctor, "is_short", lambda: True)
    assert list(doctor.checkpoints()) == [Finding("note", SHORT_OF_MEMORY)]
    monkeypatch.setenv("REWINDOW_RESTORE_BY", "re-execution")
    assert list(doctor.checkpoints()) == [Finding("ok", NO_CHECKPOINTS)]


def test_what_sessions_take_is_counted_below_a_deep_scratch_directory(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.open(home.state, os.O_RDONLY)
    for _ in range(sys.getrecursionlimit() + 100):
        os.mkdir("d", dir_fd=folder)
        folder, last = os.open("d", os.O_RDONLY, dir_fd=folder), folder
        os.close(last)
    os.close(folder)
    (home.state / "d" / "large").write_bytes(bytes(7_000_000))
    for name, value in home.variables.items():
        monkeypatch.setenv(name, value)
    try:
        ((grade, text),) = [(found.grade, found.text) for found in doctor.sessions()]
    finally:
        subprocess.run(["rm", "-rf", home.state / "d"], check=True)  # too deep for pytest to clean up
    assert (grade, "7." in text) == ("ok", True)


def test_contents_that_are_missing_are_a_fault(home: Home) -> None:
    with closing(sqlite3.connect(home.state / "sessions.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM blobs")
    said = "session ses_a lacks 1 stored contents that a rebuild needs; restore the store from a copy"
    assert faults(home.state / "sessions.db", 20) == [said]


def test_without_ripgrep_the_report_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_ripgrep", lambda *_: None)
    ((grade, text),) = [(found.grade, found.text) for found in doctor.search()]
    assert (grade, text.endswith(INSTALL)) == ("note", True)


@pytest.mark.slow
def test_a_configuration_that_cannot_be_used_is_a_failure(empty: Home) -> None:
    code, found = report(empty, REWINDOW_MAX_ROUNDS="many")
    assert code == 1
    assert found["configuration"][0][0] == "failed"
    assert "REWINDOW_MAX_ROUNDS" in found["configuration"][0][1]
    assert empty.run("doctor", REWINDOW_MAX_ROUNDS="many").stdout.count("REWINDOW_MAX_ROUNDS") == 1


@pytest.mark.slow
def test_state_directory_that_is_a_file_is_a_failure(empty: Home) -> None:
    place = empty.path / "a file"
    place.write_text("")
    place.chmod(0o644)
    code, found = report(empty, REWINDOW_STATE_DIR=str(place))
    assert code == 1
    assert found["permissions"] == [("failed", f"{place} is not a directory; choose another state_dir")]
    assert not [text for findings in found.values() for _, text in findings if "chmod" in text or "Errno" in text]


def test_room_is_graded_at_its_limits() -> None:
    frees = (TOO_LITTLE - 1, TOO_LITTLE, LITTLE - 1, LITTLE)
    assert [room(free) for free in frees] == ["failed", "note", "note", "ok"]


def test_a_check_that_takes_too_long_is_given_up(home: Home) -> None:
    with closing(home.store()) as store:
        store.add(row("ses_large"), [message(seq) for seq in range(2000)])
    assert faults(home.state / "sessions.db", -1) is None
    assert faults(home.state / "sessions.db", 20) == []


def test_figures_are_shown_with_their_unit() -> None:
    shown_sizes = [size(count) for count in (0, 999, 1000, 4_100, 12_000_000, 1_300_000_000, 2 * 10**12)]
    assert shown_sizes == ["0 B", "999 B", "1.0 kB", "4.1 kB", "12.0 MB", "1.3 GB", "2,000.0 GB"]
