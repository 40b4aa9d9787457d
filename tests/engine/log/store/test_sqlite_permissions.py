"""Files and directories that may not be written: what can be read, and how the rest is refused."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.stores import outcome


@contextmanager
def _place_of_somebody_without_rights() -> Iterator[Path]:
    """A directory that the user of AS_SOMEBODY owns; `tmp_path` is below one that only its owner may enter."""
    place = Path(tempfile.mkdtemp())
    try:
        yield place
    finally:
        for directory in (place, *(path for path in place.rglob("*") if path.is_dir())):
            directory.chmod(0o700)
        shutil.rmtree(place)


# Rights do not bind root, so a program that is root becomes somebody else first, with all it needs imported.
AS_SOMEBODY = """
import hashlib, engine.log.store.database, engine.log.store.locks, engine.log.store.writer
if os.geteuid() == 0:
    os.chown(path.parent, 65534, 65534)
    os.setgid(65534), os.setuid(65534)
store = SqliteStore(path, SystemClock())
digest = store.blob_put(b"content")
begun(store, A, events=3, text=digest)
store.close()
"""

READ_ONLY_FILE = """
path.chmod(0o400)
store = SqliteStore(path, SystemClock())
heard = Recorder()
store.acquire(A, heard)
store.submit(A, message(3))
error = heard.wait_for_error()
say(type(error).__name__, "it may not be written" in str(error))
try:
    store.submit(A, message(4))
except SessionReadOnlyError as refused:
    say("refused")
say(len(store.load(A)), len(store.rows()), store.blob_get(digest).decode(), heard.seqs, len(heard.errors))
store.close()
"""

READ_ONLY_DROP = """
from tests.support.archives import dropped, values_kept
store = SqliteStore(path, SystemClock())
heard = Recorder()
store.acquire(A, heard)
value = store.blob_put(b"value")
store.submit(A, values_kept(3, value))
heard.wait_for(3)
store.close()
path.chmod(0o400)
store = SqliteStore(path, SystemClock())
heard = Recorder()
store.acquire(A, heard)
store.submit(A, dropped(4, before=4))
say("it may not be written" in str(heard.wait_for_error()))
say(store.blob_get(value).decode(), store.contents(A) == {value, digest}, len(store.droppable(A)))
store.close()
"""

READ_ONLY_DIRECTORY = """
path.parent.chmod(0o500)
(path.parent / "locks").chmod(0o500)
store = SqliteStore(path, SystemClock())
say(len(store.load(A)), len(store.rows()), store.blob_get(digest).decode())
for attempt in (lambda: store.acquire(A, Recorder()), lambda: store.create(row(B))):
    try:
        attempt()
    except StoreError as error:
        say(error)
store.close()
say(sorted(os.listdir(path.parent)))
new = SqliteStore(path.parent / "other.db", SystemClock())
try:
    new.rows()
except StoreError as error:
    say(error)
new.close()
"""


def test_without_permission_to_write_the_session_is_read_only() -> None:
    with _place_of_somebody_without_rights() as place:
        lines = outcome(AS_SOMEBODY + READ_ONLY_FILE, place / "sessions.db")
    assert lines == ["StoreError True", "refused", "3 1 content [] 1"]


def test_without_permission_to_write_nothing_is_dropped() -> None:
    with _place_of_somebody_without_rights() as place:
        lines = outcome(AS_SOMEBODY + READ_ONLY_DROP, place / "sessions.db")
    assert lines == ["True", "value True 1"]


def test_in_a_read_only_directory_everything_can_be_read_and_nothing_acquired() -> None:
    with _place_of_somebody_without_rights() as place:
        read, *refused, left, new = outcome(AS_SOMEBODY + READ_ONLY_DIRECTORY, place / "sessions.db")
    assert read == "3 1 content"
    assert [line.endswith("make its directory writable, or free some space") for line in refused] == [True, True]
    assert left == "['locks', 'sessions.db']"
    assert "Permission denied; make its directory writable or choose another path" in new
