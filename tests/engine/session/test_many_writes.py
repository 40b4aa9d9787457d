"""Statements that write very many or very large files, and libraries that write: bounded, counted, never held back."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.log.events.conversation import ToolResult
from engine.log.events.execution import FileTouched, FileWritten
from tests.support.sessions import sessions_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LIBRARIES = {
    "pandas, csv": "import pandas; pandas.DataFrame({'a': [1]}).to_csv(NEW)",
    "pandas, json": "pandas.DataFrame({'a': [1]}).to_json(NEW)",
    "pandas, pickle": "pandas.DataFrame({'a': [1]}).to_pickle(NEW)",
    "numpy": "import numpy; f = open; numpy.savetxt(NEW, [1.0])",
    "numpy, mapped": "m = numpy.memmap(NEW, dtype='u1', mode='w+', shape=(4,)); m[:] = 1; m.flush(); del m",
    "tarfile": "import tarfile; tarfile.open(NEW, 'w').close()",
    "lzma": "import lzma; lzma.open(NEW, 'w').close()",
    "dbm": "import dbm.dumb; dbm.dumb.open(NEW, 'n').close()",
    "configparser": "import configparser, io\n"
    "with io.open(NEW, 'w') as f: configparser.ConfigParser({'a': '1'}).write(f)",
    "a rotating log": "import logging.handlers as handlers\n"
    "r = handlers.RotatingFileHandler(NEW, maxBytes=1, backupCount=1); r.close()",
    "pickle": "import pickle, pathlib; n = pathlib.Path(NEW).write_bytes(pickle.dumps([]))",
    "urllib": "import urllib.request, pathlib; p = pathlib.Path(NEW + '.src'); n = p.write_text('x')\n"
    "_ = urllib.request.urlretrieve(p.as_uri(), NEW)",
}


async def test_what_libraries_write_is_recorded(tmp_path: Path) -> None:
    async with sessions_of(tmp_path / "state") as sessions:
        session = await sessions.create(str(tmp_path))
        for number, (name, source) in enumerate(LIBRARIES.items()):
            start = len(session.events)
            finished = await session.cell(source.replace("NEW", repr(str(tmp_path / f"new{number}"))))
            assert finished.exception is None, (name, finished.exception)
            written = {
                Path(event.path).name.partition(".")[0]
                for event in session.events[start:]
                if isinstance(event, FileWritten)
            }
            assert written == {f"new{number}"}, name


async def test_of_very_many_files_the_first_are_shown_and_further_ones_are_counted(tmp_path: Path) -> None:
    async with sessions_of(tmp_path / "state") as sessions:
        session = await sessions.create(str(tmp_path))
        finished = await session.cell(
            "import io, os\nfor n in range(5_200): io.open(f'{n}', 'w').close()\nlen(os.listdir())"
        )
        assert finished.exception is None
        written = [event for event in session.events if isinstance(event, FileWritten)]
        assert (len(written), sum(event.unshown for event in written)) == (5_000, 4_900)
        assert len(finished.artifacts) == 5_000
        results = [event for event in session.events if isinstance(event, ToolResult) and event.parent_id]
        assert len(results) == 101
        assert results[-1].text == (
            "4,900 more files changed by the statement's own code; 200 more acts on files of which nothing is recorded"
        )
        assert finished.value == "5200"


async def test_of_very_much_content_the_rest_is_named_without_it(tmp_path: Path) -> None:
    for number in range(6):
        with (tmp_path / f"{number}").open("wb") as file:
            file.truncate(60 << 20)
    async with sessions_of(tmp_path / "state") as sessions:
        session = await sessions.create(str(tmp_path))
        finished = await session.cell(
            "import io\nfor n in range(5): f = io.open(f'{n}', 'w'); n = f.write('x'); f.close()\n"
            "io.open('5', 'r+').close()"
        )
        assert finished.exception is None
        touched = [event for event in session.events if isinstance(event, FileTouched)]
        kept = {Path(event.path).name: event.before is not None for event in touched}
        assert kept == {"0": True, "1": True, "2": True, "3": True, "4": False, "5": False}
        assert {event.note for event in touched} == {"", "the statement had changed files of 256 MiB before"}
        written = [event for event in session.events if isinstance(event, FileWritten)]
        assert len(written) == 5
        assert all(event.after is not None for event in written)


async def test_of_very_much_that_was_written_the_rest_is_named_without_it(tmp_path: Path) -> None:
    async with sessions_of(tmp_path / "state") as sessions:
        session = await sessions.create(str(tmp_path))
        finished = await session.cell(
            "import io\nfor n in range(6): f = io.open(f'{n}', 'w'); n = f.truncate(60 << 20); f.close()\n"
            "f = io.open('small', 'w'); n = f.write('x'); f.close()"
        )
        assert finished.exception is None
        written = {Path(event.path).name: event for event in session.events if isinstance(event, FileWritten)}
        assert len(written) == 7
        assert [name for name, event in written.items() if event.after is not None] == ["0", "1", "2", "3"]
        reasons = {name: event.note.partition("is not kept: ")[2] for name, event in written.items()}
        assert (reasons["4"], reasons["5"]) == ("the statement had written 256 MiB before", "it has more than 1 MiB")
