"""What was typed comes back, the newest first, to nobody else and without secrets, whatever became of its file."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from engine.cli.terminal.line_editor import FILE_NAME, LINE_CHARS, READ_BYTES, TypedHistory
from engine.log.redaction import Redactor

SECRET = "a-secret-value-9"


def history(directory: Path) -> TypedHistory:
    return TypedHistory(directory, Redactor([SECRET]))


def test_lines_come_back_in_the_next_run_without_secrets(tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = history(state)
    for line in ("one", "two\nlines", f"key = '{SECRET}'", "\ud800"):
        first.store_string(line)
    assert stat.S_IMODE((state / FILE_NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert SECRET not in (state / FILE_NAME).read_text()
    assert list(history(state).load_history_strings()) == ["\ud800", "key = '***'", "two\nlines", "one"]


def test_a_damaged_file_and_one_of_others_rights_give_what_can_be_read(tmp_path: Path) -> None:
    kept = tmp_path / FILE_NAME
    kept.write_bytes(b'"one"\n{"no": "text"}\n"cut\n\xff\xfe\n"two"\n')
    kept.chmod(0o644)
    assert list(history(tmp_path).load_history_strings()) == ["two", "one"]
    history(tmp_path).store_string("three")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_what_cannot_be_kept_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    history(tmp_path / "state").store_string("one")
    assert list(history(tmp_path / "state").load_history_strings()) == []
    (tmp_path / "linked").mkdir()
    (tmp_path / "elsewhere").touch()
    (tmp_path / "linked" / FILE_NAME).symlink_to(tmp_path / "elsewhere")
    history(tmp_path / "linked").store_string("one")
    assert (tmp_path / "elsewhere").read_bytes() == b""


def test_a_long_text_is_not_kept_and_a_long_file_is_shortened(tmp_path: Path) -> None:
    kept = tmp_path / FILE_NAME
    history(tmp_path).store_string("x" * (LINE_CHARS + 1))
    assert not kept.exists()
    line = "y" * 1_000
    kept.write_text("".join(json.dumps(f"{number} {line}") + "\n" for number in range(4 * READ_BYTES // 1_000)))
    found = list(history(tmp_path).load_history_strings())
    assert found[0].startswith(f"{4 * READ_BYTES // 1_000 - 1} ")
    assert kept.stat().st_size <= READ_BYTES
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert list(history(tmp_path).load_history_strings()) == found
