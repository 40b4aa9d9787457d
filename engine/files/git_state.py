"""The branch of a git repository, and whether its tracked files differ from the last commit.

Reads the repository's files and never starts git, because git runs programs that a repository's configuration names
(filters, `core.fsmonitor`), even for `git status`. The index has each tracked file's size and time; a file with other
ones is hashed. The index as a tree has the commit's tree as its hash if nothing is staged. Whatever cannot be decided
so is unknown: split and sparse indexes, SHA-256 repositories, commits that a pack has as a difference, large trees.
Files whose content a filter replaces count as changed if their time differs. Untracked files are not looked for. The
formats are those of gitformat-index(5), gitformat-pack(5) and gitrepository-layout(5). Called by `surroundings`.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, Final, NamedTuple

from .project import project_root
from .safe_open import opened_directory, opened_file

SMALL_BYTES: Final = 4_096
_INDEX_BYTES: Final = 8 << 20
PACKED_REFS_BYTES: Final = 4 << 20
_OBJECT_BYTES: Final = 64 << 10
_MOST_FILES: Final = 20_000
"""Tracked files in an index that is compared with the work tree."""
_MOST_PATH: Final = 4_096
"""Bytes of a path (PATH_MAX). In version 4 each one may repeat all of the one before."""
_MOST_HASHED: Final = 200
_HASHED_BYTES: Final = 4 << 20
"""Bytes of one file that is hashed."""
_MOST_PACKS: Final = 50
_MOST_DEPTH: Final = 100
BRANCH: Final = re.compile(r"ref: refs/heads/(\S+)\s*")
HASH: Final = re.compile(r"([0-9a-f]{40})\s*")
_GIT_FILE: Final = re.compile(r"gitdir: ([^\n]+)\n?")
_COMMIT: Final = re.compile(rb"tree ([0-9a-f]{40})\n")
_ENTRY: Final = struct.Struct(">10I20sH")
_ASSUMED, _EXTENDED, _SKIPPED, _INTENDED = 0x8000, 0x4000, 0x4000, 0x2000
"""Flags of an entry, and extended ones: do not look at the file, it is outside a sparse checkout, it is not added."""
_LINK, _SUBMODULE, _TREE = 0o120000, 0o160000, 0o040000
_SPLIT: Final = b"link"
_COMPRESSED: Final = 4
"""The version of an index in which a path has what it does not share with the one before."""
_VERSIONS: Final = (2, 3, _COMPRESSED)
_PACK_INDEX: Final = 0xFF744F63_00000002
"""The signature of a pack's index, and its version."""
_OF_COMMIT: Final = 1
"""The type of a whole commit in a pack."""


class GitState(NamedTuple):
    """A repository's state.

    `branch` is "" if a commit is checked out, not a branch; `commit` then begins its hash. `unstaged` counts the
    tracked files that differ from the index, `is_staged` says whether the index differs from the commit; None if
    unknown.
    """

    branch: str
    commit: str = ""
    unstaged: int | None = None
    is_staged: bool | None = None


class _Entry(NamedTuple):
    path: bytes
    mode: int
    size: int
    time_ns: int
    digest: bytes
    is_looked_at: bool
    is_added: bool


class _UnknownFormatError(Exception):
    """The repository has something that this module does not read."""


def git_state(directory: str) -> GitState | None:
    """Return the state of the repository around an absolute directory; None without one. Blocks."""
    root = project_root(directory)
    try:
        git = git_directory(root)
        head = text_of(os.path.join(git, "HEAD"), SMALL_BYTES)
    except OSError:
        return None
    on_branch, detached = BRANCH.fullmatch(head), HASH.fullmatch(head)
    if on_branch is None and detached is None:
        return None
    state = GitState(on_branch[1]) if on_branch else GitState("", head[:7])
    unstaged = is_staged = None
    with suppress(OSError, ValueError, struct.error, _UnknownFormatError):
        path = os.path.join(git, "index")
        entries = list(_entries(_data(path, _INDEX_BYTES)))
        unstaged = _changed(root, entries, os.stat(path).st_mtime_ns)
        common = common_directory(git)
        commit = detached[1] if detached else _commit_of(common, state.branch)
        tree = None if commit is None else _tree_of(common, commit)
        is_staged = None if tree is None else _tree_hash(entries) != tree
    return state._replace(unstaged=unstaged, is_staged=is_staged)


def git_directory(root: str) -> str:
    """Return the git directory of a work tree. Raises OSError."""
    git = os.path.join(root, ".git")
    if os.path.isdir(git):
        return git
    found = _GIT_FILE.fullmatch(text_of(git, SMALL_BYTES))
    if found is None:
        raise FileNotFoundError(git)
    return os.path.join(root, found[1])


def common_directory(git: str) -> str:
    """Return where a repository with several work trees has its branches and objects."""
    try:
        return os.path.join(git, text_of(os.path.join(git, "commondir"), SMALL_BYTES).strip())
    except OSError:
        return git


def _data(path: str, limit: int) -> bytes:
    with opened_file(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _UnknownFormatError(path)
    return data


def text_of(path: str, limit: int) -> str:
    """Return a small file's text; empty if it is larger than `limit` bytes. Raises OSError."""
    try:
        return _data(path, limit).decode(errors="replace")
    except (ValueError, _UnknownFormatError):
        return ""


# --- index and work tree ----------------------------------------------------------------------------------------------


def _entries(data: bytes) -> Iterator[_Entry]:
    """Yield the entries of an index. Raises ValueError, struct.error, _UnknownFormatError."""
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in _VERSIONS or count > _MOST_FILES:
        raise _UnknownFormatError
    at, path = 12, b""
    for _ in range(count):
        start = at
        fields = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        mode, size, digest, flags, more = fields[6], fields[9], fields[10], fields[11], 0
        if flags & _EXTENDED:
            more = struct.unpack_from(">H", data, at)[0]
            at += 2
        shared = 0
        if version == _COMPRESSED:
            dropped, at = _offset(data, at)
            shared = len(path) - dropped
            if not 0 <= shared <= _MOST_PATH:
                raise _UnknownFormatError
        end = data.index(b"\0", at)
        path = path[:shared] + data[at:end]
        at = end + 1 if version == _COMPRESSED else start + (end - start) // 8 * 8 + 8
        if stat.S_IFMT(mode) == _TREE:
            raise _UnknownFormatError
        looked_at = not flags & _ASSUMED and not more & _SKIPPED and stat.S_IFMT(mode) != _SUBMODULE
        is_added = not more & _INTENDED and not flags & 0x3000  # no side of a conflict
        yield _Entry(path, mode, size, fields[2] * 10**9 + fields[3], digest, looked_at, is_added)
    while at + 8 <= len(data) - 20:
        name, length = struct.unpack_from(">4sI", data, at)
        if name == _SPLIT:
            raise _UnknownFormatError
        at += 8 + length


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """Return a number in the encoding of pack offsets, and the position behind it. Raises ValueError."""
    value = -1
    while at < len(data):
        value = (value + 1) << 7 | data[at] & 0x7F
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
    raise ValueError("a number in the pack is cut off")


def _changed(root: str, entries: list[_Entry], index_time_ns: int) -> int | None:
    """Count the files that differ from their entries; None if too many of them would have to be hashed."""
    changed: set[bytes] = set()
    doubtful: list[_Entry] = []
    for entry in entries:
        if not entry.is_looked_at:
            continue
        try:
            found = os.lstat(os.path.join(os.fsencode(root), entry.path))
        except (OSError, ValueError):
            changed.add(entry.path)
            continue
        is_racy = entry.time_ns >= index_time_ns  # it may have changed after the index was written
        is_other = not entry.is_added or stat.S_IFMT(found.st_mode) != stat.S_IFMT(entry.mode)
        if is_other or (found.st_size & 0xFFFFFFFF != entry.size and entry.size):
            changed.add(entry.path)
        elif found.st_size != entry.size or found.st_mtime_ns != entry.time_ns or is_racy:
            doubtful.append(entry)
    if len(doubtful) > _MOST_HASHED:
        return None
    changed.update(entry.path for entry in doubtful if not _has_content(root, entry))
    return len(changed)


def _has_content(root: str, entry: _Entry) -> bool:
    path = os.path.join(root, os.fsdecode(entry.path))
    try:
        content = os.fsencode(os.readlink(path)) if stat.S_IFMT(entry.mode) == _LINK else _content(path, root)
    except (OSError, ValueError, _UnknownFormatError):
        return False
    # Some repositories have lines that end with LF where the work tree has CRLF.
    return entry.digest in (_hash("blob", content), _hash("blob", content.replace(b"\r\n", b"\n")))


def _content(path: str, root: str) -> bytes:
    with opened_file(path, (os.path.realpath(root),)) as file:
        content = file.read(_HASHED_BYTES + 1)
    if len(content) > _HASHED_BYTES:
        raise _UnknownFormatError(path)
    return content


def _hash(kind: str, content: bytes) -> bytes:
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).digest()


def _tree_hash(entries: list[_Entry]) -> bytes:
    """Return the hash of the tree that a commit of the index would have. Raises _UnknownFormatError."""
    top: dict[bytes, Any] = {}
    for entry in entries:
        *folders, name = entry.path.split(b"/")
        if len(folders) > _MOST_DEPTH:
            raise _UnknownFormatError
        folder = top
        for each in folders:
            folder = folder.setdefault(each, {})
        if entry.is_added:
            folder[name] = entry
    return _hash_of(top)


def _hash_of(folder: Mapping[bytes, Any]) -> bytes:
    lines: list[tuple[bytes, bytes]] = []
    for name, each in folder.items():
        if isinstance(each, _Entry):
            lines.append((name, b"%o %s\0%s" % (each.mode, name, each.digest)))
        elif each:
            lines.append((name + b"/", b"40000 %s\0%s" % (name, _hash_of(each))))
    return _hash("tree", b"".join(line for _, line in sorted(lines)))


# --- the last commit --------------------------------------------------------------------------------------------------


def _commit_of(common: str, branch: str) -> str | None:
    """Return the hash of a branch's commit; None if it has none."""
    if ".." in branch:
        return None
    with suppress(OSError):
        found = HASH.fullmatch(text_of(os.path.join(common, "refs/heads", branch), SMALL_BYTES))
        return None if found is None else found[1]
    try:
        packed = text_of(os.path.join(common, "packed-refs"), PACKED_REFS_BYTES)
    except OSError:
        return None
    end = f" refs/heads/{branch}"
    return next((line[:40] for line in packed.splitlines() if line[40:] == end), None)


def _tree_of(common: str, commit: str) -> bytes | None:
    """Return the hash of a commit's tree; None if the commit is not stored as a whole."""
    objects = os.path.join(common, "objects")
    try:
        text = zlib.decompressobj().decompress(
            _data(os.path.join(objects, commit[:2], commit[2:]), _OBJECT_BYTES), _OBJECT_BYTES
        )
        text = text.partition(b"\0")[2]
    except FileNotFoundError:
        text = _packed(os.path.join(objects, "pack"), bytes.fromhex(commit))
    except zlib.error:
        return None
    found = None if text is None else _COMMIT.match(text)
    return None if found is None else bytes.fromhex(found[1].decode())


def _packed(folder: str, digest: bytes) -> bytes | None:
    with opened_directory(folder) as directory, os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if entry.name.endswith(".idx"))
    for name in names[:_MOST_PACKS]:
        path = os.path.join(folder, name)
        with opened_file(path) as index:
            at = _place_in(index, digest)
        if at is not None:
            with opened_file(f"{path.removesuffix('.idx')}.pack") as pack:
                pack.seek(at)
                return _whole_commit(pack.read(_OBJECT_BYTES))
    return None


def _place_in(index: BinaryIO, digest: bytes) -> int | None:
    """Return where a pack has an object; None if it has not. Raises struct.error, _UnknownFormatError."""

    def read(at: int, form: str) -> Any:
        index.seek(at)
        return struct.unpack(form, index.read(struct.calcsize(form)))[0]

    if read(0, ">Q") != _PACK_INDEX:
        raise _UnknownFormatError
    fans, names = 8, 8 + 256 * 4
    count = read(fans + 255 * 4, ">I")
    low = read(fans + (digest[0] - 1) * 4, ">I") if digest[0] else 0
    high = read(fans + digest[0] * 4, ">I")
    while low < high:
        middle = (low + high) // 2
        found = read(names + middle * 20, "20s")
        if found == digest:
            at = read(names + count * 24 + middle * 4, ">I")
            return read(names + count * 28 + (at & 0x7FFFFFFF) * 8, ">Q") if at & 0x80000000 else at
        low, high = (middle + 1, high) if found < digest else (low, middle)
    return None


def _whole_commit(data: bytes) -> bytes | None:
    if not data or data[0] >> 4 & 7 != _OF_COMMIT:
        return None
    start = next((at + 1 for at, byte in enumerate(data) if not byte & 0x80), len(data))
    try:
        return zlib.decompressobj().decompress(data[start:], _OBJECT_BYTES)
    except zlib.error:
        return None
