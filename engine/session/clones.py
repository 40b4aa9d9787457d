"""Clones of git repositories in which sessions work, one for each session: the setting `workspaces`.

A session that is opened in a directory of the setting works in `DIR/SESSION`. So its clone has the same path on every
machine, and so have the files on its log. If the clone is not there when the session is loaded, it is made again at the
logged commit, and gets the last contents that the log has of the files. The address is always the setting's, because a
log may come from elsewhere; for the same reason nothing is put back that was logged before an import, or into `.git`.

A clone is made under another name and renamed when it is complete, so nobody finds half of one. Each has a *record* in
the state directory, which is locked while a process has the session open. `sweep_clones` removes those whose session is
gone. A store has records of its own, because another one does not have its sessions.

Blocks. Called by the registry of sessions, by loads, and by the commands that delete sessions.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import xxhash
from msgspec.structs import replace

from ..core.domain import is_inside
from ..core.errors import InvalidRequestError
from ..core.execution import DIRECTORY
from ..core.ids import BlobDigest, SessionId
from ..core.repositories import Repository, repository_of
from ..core.settings import Settings
from ..core.store_address import shown
from ..core.text import ELLIPSIS, plural, printable
from ..files.protected import Protection
from ..log.events import Event
from ..log.events.conversation import ToolCall
from ..log.events.execution import ExecutionFinished, FileWritten
from ..log.events.going_back import Rewound
from ..log.events.session import OthersWrote, WorkspaceCloned
from ..log.file_history import SHOWN_FILES, written
from .directories import remove_tree, spelled
from .git_clone import CheckedOut, GitError, clone
from .putting_back import put_back

FOLDER: Final = "clones"
_OF_DATABASE: Final = (
    "PGHOST",
    "PGHOSTADDR",
    "PGPORT",
    "PGUSER",
    "PGDATABASE",
    "PGSERVICE",
    "PGSERVICEFILE",
    "PGSYSCONFDIR",
)
"""The folder of records in the state directory."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_MODE: Final = 0o700
_MOST_LINKS: Final = 40
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_GIT: Final = ".git"
CANNOT: Final = "cannot clone {address}: {reason}"
CANNOT_AGAIN: Final = "cannot clone {address} for session {session} again: {reason}; load it with another cwd"
WORKS_IN: Final = "This session works in {directory}, a clone of {address} at commit {commit}."
AGAIN: Final = "The clone {directory} was missing. It was made again, at commit {commit} of {address}{files}."
CHANGEABLE: Final = (
    "no session works in {}, because another account may rename what is in {}; give that directory to root or to your "
    "account, and if others write in it, set its sticky bit"
)
OTHERS: Final = "{} belongs to another account, so no session works in it"
BACK: Final = ", and {count:,} {files} {were} put back from the log"
NOT_BACK: Final = (
    "Not put back, because the log does not have their contents, or other programs would run them: {names}."
)
NOT_LOGGED: Final = "Commits, staged changes and files that git ignores are not in the log, so those are missing."


class Clones:
    """The clones of the sessions that a process has open."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._repositories = settings.workspaces
        self._state_dir = os.path.realpath(settings.state_dir)
        self._records = records_of(settings, environ)
        self._environ = environ
        self._locks: dict[SessionId, int] = {}

    def directory(self, session_id: SessionId, cwd: str) -> str:
        """Return where a session works that is opened in `cwd`: in its own clone, if there is one for that directory.

        A directory of the setting stands for the session's clone, and so does the clone of another session.
        """
        found = repository_of(self._repositories, cwd)
        return cwd if found is None else os.path.join(found.directory, _name_of(session_id))

    def is_clone(self, cwd: str) -> bool:
        return repository_of(self._repositories, cwd) is not None

    def alike(self, known: Iterable[str], cwd: str) -> list[str]:
        """Return the known directories that are clones for a directory of the setting."""
        place = spelled(cwd)
        if not any(each.directory == place for each in self._repositories):
            return []
        return [path for path in known if os.path.dirname(path) == place]

    def provide(
        self,
        session_id: SessionId,
        cwd: str,
        history: Sequence[Event] = (),
        blob_get: Callable[[BlobDigest], bytes] | None = None,
    ) -> WorkspaceCloned | None:
        """Make the clone that a session works in, if it is missing; return the event to append.

        Args:
            session_id: the session, which this process writes.
            cwd: where it works.
            history: its log; empty for a new one.
            blob_get: `Store.blob_get`, for a session that is loaded.

        Raises:
            InvalidRequestError: it cannot be made, or something of another account is there.
        """
        repository = repository_of(self._repositories, cwd)
        if repository is None:
            return None
        _check_way(repository.directory)
        self._hold(session_id, cwd)
        if _is_filled(cwd):
            if os.lstat(cwd).st_uid != os.geteuid():
                raise InvalidRequestError(OTHERS.format(cwd))
            return None
        # An imported log chooses no place, and no commit: that of a stranger's proposal can be fetched like any other.
        own = _since_import(history)
        made = [event for event in own if isinstance(event, WorkspaceCloned)]
        last = made[-1] if made and _is_same(repository, made[-1]) else None
        new = os.path.join(repository.directory, f".{os.path.basename(cwd)}.new")
        try:
            remove_tree(new)
            os.makedirs(repository.directory, exist_ok=True)
            _check_way(repository.directory)  # somebody else may have made it meanwhile
            os.mkdir(new, _MODE)
            at = clone(repository, new, self._environ, last and CheckedOut(last.commit, last.branch))
            back, left = 0, list[str]()
            real = os.path.realpath(cwd)
            if last is not None and blob_get is not None:
                events = _relocated(own, {each.directory for each in made}, real)
                back, left = self._put_back(events, real, new, blob_get)
            _rename(new, cwd)
        except (OSError, GitError) as error:
            remove_tree(new)
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            sentence = CANNOT if last is None else CANNOT_AGAIN
            raise InvalidRequestError(
                sentence.format(address=repository.address, reason=reason, session=session_id)
            ) from None
        except BaseException:
            remove_tree(new)
            raise
        return WorkspaceCloned(
            address=repository.address,
            commit=at.commit,
            branch=at.branch,
            directory=real,
            again=last is not None,
            files=back,
            left=tuple(left),
        )

    def _put_back(
        self, events: Iterable[Event], real: str, new: str, blob_get: Callable[[BlobDigest], bytes]
    ) -> tuple[int, list[str]]:
        """Return how many files got their contents back, and the paths of the others."""
        back, left = set[str](), dict[str, None]()
        root = os.path.realpath(new)
        protection = Protection((root,))
        for file in written(events):
            if not is_inside(file.path, (real,)):
                if file.wanted_digest and not os.path.lexists(file.path) and not is_inside(file.path, self._kept_out):
                    left[file.path] = None
                continue
            relative = os.path.relpath(file.path, real)
            place = os.path.join(root, relative)
            try:
                # A question was asked about each protected file, but not about what completes a repository here: what
                # removed a part of it there may not be on the log.
                is_known = (
                    not {_GIT, os.curdir} & {*relative.casefold().split(os.sep)}
                    and not (file.wanted_digest and protection.why(place))
                    and put_back(file, place, blob_get, (root,))
                )
            except (OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno in _FULL:
                    raise
                is_known = False
            if not is_known:
                left[file.path] = None
            elif file.wanted_digest != DIRECTORY:
                back.add(file.path)
        return len(back), list(left)

    @property
    def _kept_out(self) -> tuple[str, ...]:
        return (self._state_dir,)

    def _hold(self, session_id: SessionId, cwd: str) -> None:
        """Record the clone, and mark the record as in use until `close`."""
        if session_id in self._locks:
            return
        with suppress(OSError):  # a clone without a record is kept
            os.makedirs(self._records, mode=_MODE, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            record = os.open(self._records / _name_of(session_id), flags, 0o600)
            self._locks[session_id] = record
            fcntl.flock(record, fcntl.LOCK_SH | fcntl.LOCK_NB)
            os.pwrite(record, os.fsencode(cwd), 0)
            os.ftruncate(record, len(os.fsencode(cwd)))

    def remove(self, session_id: SessionId) -> None:
        """Remove the clone of a session that was deleted. Raises nothing."""
        _remove(self._records / _name_of(session_id))

    def close(self, session_id: SessionId) -> None:
        """Mark a clone as unused by this process."""
        if (record := self._locks.pop(session_id, -1)) >= 0:
            os.close(record)


def _is_same(repository: Repository, event: WorkspaceCloned) -> bool:
    """Whether a clone is of a repository of the setting, whose address or whose directory may be another by now."""
    return event.address == repository.address or os.path.dirname(event.directory) == os.path.realpath(
        repository.directory
    )


def _is_filled(path: str) -> bool:
    """Whether there is anything at the path but an empty directory."""
    try:
        return bool(os.listdir(path))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _check_way(directory: str) -> None:
    if other := _changeable(directory):
        raise InvalidRequestError(CHANGEABLE.format(directory, other))


def _changeable(path: str) -> str:
    """Return a directory or link on the way to a path that another account owns or may exchange; "" for none."""
    place, rest, links = os.sep, [*filter(None, path.split(os.sep))], 0
    while True:
        with suppress(FileNotFoundError):
            state = os.lstat(place)
            is_link = stat.S_ISLNK(state.st_mode)
            is_open = not is_link and state.st_mode & stat.S_IWOTH and not state.st_mode & stat.S_ISVTX
            links += is_link
            if is_open or state.st_uid not in (0, os.geteuid()) or links > _MOST_LINKS:
                return place
            if is_link:
                target = os.readlink(place)
                place = os.sep if os.path.isabs(target) else os.path.dirname(place)
                rest = [*filter(None, target.split(os.sep)), *rest]
        if not rest:
            return ""
        place = os.path.normpath(os.path.join(place, rest.pop(0)))


def _rename(new: str, cwd: str) -> None:
    """Give a complete clone its name. If somebody else made one meanwhile, that one stays."""
    try:
        os.rename(new, cwd)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        remove_tree(new)


def _since_import(history: Sequence[Event]) -> Sequence[Event]:
    imports = (place for place, event in enumerate(history) if isinstance(event, OthersWrote) and event.by == "import")
    return history[max(imports, default=-1) + 1 :]


def _relocated(events: Iterable[Event], places: Collection[str], here: str) -> Iterator[Event]:
    """Yield events with paths `here` instead of paths in earlier clones of the session, or of the one it continues."""

    def moved(path: str) -> str:
        for place in places:
            if is_inside(path, (place,)):
                return os.path.normpath(os.path.join(here, os.path.relpath(path, place)))
        return path

    for event in events:
        match event:
            case FileWritten(path=path):
                yield replace(event, path=moved(path), source=event.source and moved(event.source))
            case Rewound(restored=restored):
                yield replace(event, restored=tuple(replace(file, path=moved(file.path)) for file in restored))
            case ToolCall(tool="chmod", arguments={"path": str(path)} as arguments):
                yield replace(event, arguments={**arguments, "path": moved(path)})
            case _:
                yield event


# --- in words ---------------------------------------------------------------------------------------------------------


def clone_lines(event: WorkspaceCloned | None, history: Iterable[Event] = ()) -> list[str]:
    """Return sentences for the user on a clone that was made; none if there was none to make."""
    if event is None:
        return []
    words = {"directory": printable(event.directory), "address": event.address, "commit": event.commit[:12]}
    if not event.again:
        return [WORKS_IN.format(**words)]
    were = "was" if event.files == 1 else "were"
    back = BACK.format(count=event.files, files=plural(event.files, "file"), were=were) if event.files else ""
    names = [printable(os.path.relpath(path, event.directory)) for path in event.left[:SHOWN_FILES]]
    names += [ELLIPSIS] * (len(event.left) > SHOWN_FILES)
    ran = any(isinstance(each, ExecutionFinished) for each in history)
    return [
        AGAIN.format(**words, files=back),
        *([NOT_BACK.format(names=", ".join(names))] if names else []),
        *([NOT_LOGGED] if ran else []),
    ]


# --- removal ----------------------------------------------------------------------------------------------------------


def records_of(settings: Settings, environ: Mapping[str, str]) -> Path:
    """Return the directory with the records of clones for the sessions of the settings' store."""
    # Without a password, which may change, but with the variables by which libpq finds a database.
    store = "\0".join((shown(settings.store), settings.tenant, *(environ.get(name, "") for name in _OF_DATABASE)))
    return Path(os.path.realpath(settings.state_dir)) / FOLDER / xxhash.xxh3_64_hexdigest(store.encode())


def remove_clone(settings: Settings, environ: Mapping[str, str], session_id: SessionId) -> None:
    """Remove the clone of a session that was deleted, if this machine has one. Raises nothing."""
    _remove(records_of(settings, environ) / _name_of(session_id))


def sweep_clones(settings: Settings, environ: Mapping[str, str], kept: Callable[[], Collection[SessionId]]) -> int:
    """Remove the clones of sessions that are gone, unless a process uses them; return how many.

    `kept` returns the sessions in the store.
    """
    records = records_of(settings, environ)
    try:
        found = os.listdir(records)  # first, because a new session is in the store before its clone is recorded
    except FileNotFoundError:
        return 0
    names = set(found).difference(map(_name_of, kept()))
    return sum(_remove(records / name) for name in sorted(names))


def _remove(record: Path) -> bool:
    """Remove a clone and its record; return whether it is gone."""
    try:
        opened = os.open(record, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        place = os.fsdecode(os.read(opened, os.fstat(opened).st_size))
        if place:
            remove_tree(place)
            remove_tree(os.path.join(os.path.dirname(place), f".{os.path.basename(place)}.new"))
        if place and os.path.lexists(place):
            return False
        record.unlink()
    except OSError:
        return False
    finally:
        os.close(opened)
    return True


def _name_of(session_id: SessionId) -> str:
    """Return the name of a clone: the session's id, if that is a plain name."""
    return session_id if _NAME.fullmatch(session_id) else xxhash.xxh3_64_hexdigest(session_id.encode())
