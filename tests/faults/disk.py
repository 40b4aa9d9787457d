"""A disk as the list of operations on it, and what a power loss may leave of it.

`Disk` performs operations in memory; the file system of the tests (`filesystem`) serves one to programs and keeps the
operations. `after_power_loss` rebuilds the disk as it may be if the power fails after some of them. Everything that was
synced is there. Of the rest a seed draws what reached the disk:

- Data: for each sector of 512 bytes, the content after any of the later writes. The size, too, is one of those that the
  file had. A sector that never arrived reads as zeros.
- Names, by `Profile`:
  - `ext4`: one journal, so all changes up to some point. Each fsync commits it. A file that replaces another by rename
    has its data (`auto_da_alloc`).
  - `xfs`: one log, too, but an fsync writes it only up to the latest change of that file, and a rename does not wait
    for data.
  - `btrfs`: changes up to the latest transaction, and those that an fsync put into the log: the names of the synced
    file, or all names in a synced directory.
  - `posix`: what the standard promises, and no more. Each directory loses its changes since its own fsync from any
    point on, and an fsync of a file keeps none of its names.

A disk that lies about fsync keeps nothing for certain. Must not know what programs write.
"""

from __future__ import annotations

import os
import random
import stat
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

ROOT: Final = 1
SECTOR: Final = 512
_MOST_VERSIONS: Final = 40
"""Of a content that was never synced, from which sectors are drawn."""
Profile = Literal["ext4", "xfs", "btrfs", "posix"]
PROFILES: Final[tuple[Profile, ...]] = ("ext4", "xfs", "btrfs", "posix")
Kind = Literal["make", "name", "write", "truncate", "attributes", "fsync"]


@dataclass(frozen=True, slots=True)
class Named:
    """The name in the directory leads to that inode from now on; None removes the name."""

    directory: int
    name: str
    inode: int | None


@dataclass(frozen=True, slots=True)
class Operation:
    """One change, or an fsync. `name` changes one or two names at once: a link, a removal or a rename.

    `make` sets `mode` with the type bits, and `data` is the target of a symbolic link. `size` is that of a truncation.
    """

    kind: Kind
    inode: int
    names: tuple[Named, ...] = ()
    offset: int = 0
    data: bytes = b""
    size: int = 0
    mode: int = 0
    owner: tuple[int, int] = (0, 0)
    replaces: bool = False
    """Whether a rename took the name of another file."""
    program: int = 0
    """The process that did it."""


@dataclass(slots=True)
class Inode:
    mode: int
    owner: tuple[int, int]
    data: bytearray = field(default_factory=bytearray)
    names: dict[str, int] = field(default_factory=dict)
    """Of a directory."""
    links: int = 0


class Disk:
    """Inodes by their numbers."""

    def __init__(self) -> None:
        self.inodes: dict[int, Inode] = {ROOT: Inode(stat.S_IFDIR | 0o755, (os.getuid(), os.getgid()), links=1)}

    def apply(self, operation: Operation) -> None:
        """Perform it; names of missing directories are dropped."""
        inode = self.inodes.get(operation.inode)
        match operation.kind:
            case "make":
                inode = self.inodes[operation.inode] = Inode(operation.mode, operation.owner)
                inode.data += operation.data
            case "write" if inode is not None:
                end = operation.offset + len(operation.data)
                inode.data.extend(bytes(max(0, end - len(inode.data))))
                inode.data[operation.offset : end] = operation.data
            case "truncate" if inode is not None:
                del inode.data[operation.size :]
                inode.data.extend(bytes(operation.size - len(inode.data)))
            case "attributes" if inode is not None:
                inode.mode, inode.owner = operation.mode, operation.owner
            case _:
                pass
        for named in operation.names:
            self._name(named)

    def _name(self, named: Named) -> None:
        directory = self.inodes.get(named.directory)
        if directory is None:
            return
        if (old := directory.names.pop(named.name, None)) is not None:
            self.inodes[old].links -= 1
        if named.inode is not None:
            directory.names[named.name] = named.inode
            self.inodes[named.inode].links += 1

    def save(self, folder: Path) -> None:
        """Write all that has a name into an empty directory of another file system."""
        self._save(ROOT, folder, {})

    def _save(self, number: int, path: Path, saved: dict[int, Path]) -> None:
        for name, child in self.inodes[number].names.items():
            inode, target = self.inodes[child], path / name
            if stat.S_ISDIR(inode.mode):
                if child in saved:
                    continue  # a loss kept both names of a moved directory
                target.mkdir()
                saved[child] = target
                self._save(child, target, saved)
            elif child in saved:
                os.link(saved[child], target, follow_symlinks=False)
                continue
            elif stat.S_ISLNK(inode.mode):
                target.symlink_to(os.fsdecode(bytes(inode.data)))
            elif stat.S_ISREG(inode.mode):
                target.write_bytes(inode.data)
            else:
                continue  # pipes and sockets
            saved[child] = target
            os.chown(target, *inode.owner, follow_symlinks=False)
            if not stat.S_ISLNK(inode.mode):
                target.chmod(stat.S_IMODE(inode.mode))


def after_power_loss(
    operations: Sequence[Operation], profile: Profile, seed: int, settled: int = 0, lies: bool = False
) -> Disk:
    """Return the disk as it may be after a power loss that came when these operations had returned.

    The first `settled` operations are there in any case. If the disk `lies`, fsyncs keep nothing.
    """
    return _Loss(operations, profile, random.Random(seed), settled, lies).disk()


class _Loss:
    def __init__(
        self, operations: Sequence[Operation], profile: Profile, chance: random.Random, settled: int, lies: bool
    ) -> None:
        self._operations = operations
        self._profile = profile
        self._chance = chance
        self._settled = settled
        self._syncs = [
            place for place, each in enumerate(operations) if each.kind == "fsync" and place >= settled and not lies
        ]
        self._synced: dict[int, int] = {}
        """The place after the latest fsync of each inode."""
        for place in self._syncs:
            self._synced[operations[place].inode] = place + 1

    def disk(self) -> Disk:
        kept = self._kept_names()
        disk = Disk()
        changes: defaultdict[int, list[int]] = defaultdict(list)
        for place, each in enumerate(self._operations):
            if each.kind in ("make", "name", "attributes"):
                if place in kept:
                    disk.apply(each)
                elif each.kind == "make":  # a later name of it may be kept
                    disk.apply(Operation("make", each.inode, mode=each.mode, owner=each.owner, data=each.data))
            elif each.kind != "fsync":
                changes[each.inode].append(place)
        for inode, places in changes.items():
            if inode in disk.inodes:
                self._write(disk.inodes[inode], places, self._certain(inode, kept))
        return disk

    # --- names

    def _kept_names(self) -> set[int]:
        operations, chance, end = self._operations, self._chance, len(self._operations)
        places = [place for place, each in enumerate(operations) if each.kind in ("make", "name", "attributes")]
        if self._profile == "ext4":
            cut = self._cut(self._syncs[-1] if self._syncs else 0)
            return {place for place in places if place < cut}
        if self._profile == "xfs":
            cut = self._cut(max((self._changed(place) for place in self._syncs), default=0))
            return {place for place in places if place < cut}
        if self._profile == "btrfs":
            cut = max(self._settled, chance.randint(0, end))
            return {place for place in places if place < cut} | self._logged(places)
        cuts: dict[int, int] = {}
        kept: set[int] = set()
        for place in places:
            directories = [named.directory for named in operations[place].names] or [operations[place].inode]
            for each in directories:
                if each not in cuts:
                    cuts[each] = self._cut(self._synced.get(each, 0))
            if place < max(cuts[each] for each in directories):
                kept.add(place)
        return kept

    def _cut(self, least: int) -> int:
        """How many operations reached the disk, at least so many. Often few or all, because these are special."""
        least, end = max(least, self._settled), len(self._operations)
        return self._chance.choice((least, end, self._chance.randint(least, end)))

    def _changed(self, sync: int) -> int:
        """The place after the latest change of names that the fsync at that place writes to the log."""
        inode = self._operations[sync].inode
        for place in range(sync - 1, -1, -1):
            each = self._operations[place]
            if each.kind in ("make", "name", "attributes") and (
                each.inode == inode or any(inode in (named.inode, named.directory) for named in each.names)
            ):
                return place + 1
        return 0

    def _logged(self, places: Sequence[int]) -> set[int]:
        """The changes of names that fsyncs put into the log: those of the file, and of new directories above it."""
        kept: set[int] = set()
        for place in places:
            each = self._operations[place]
            ends = [self._synced.get(each.inode, 0), *(self._synced.get(named.directory, 0) for named in each.names)]
            if place < max(ends):
                kept.add(place)
        above = {named.directory for place in kept for named in self._operations[place].names}
        while above:
            found = {
                place
                for place in places
                if place not in kept and self._operations[place].inode in above and self._operations[place].names
            }
            kept |= found
            above = {named.directory for place in found for named in self._operations[place].names}
        return kept

    # --- data

    def _certain(self, inode: int, kept: set[int]) -> int:
        """How many operations the data of that file survive in any case."""
        certain = max(self._settled, self._synced.get(inode, 0))
        if self._profile == "ext4":
            for place in kept:
                each = self._operations[place]
                if each.replaces and each.inode == inode:
                    certain = max(certain, place)
        return certain

    def _write(self, inode: Inode, places: Sequence[int], certain: int) -> None:
        """Give the file the content that it may have: each sector has that of some moment since its latest fsync.

        A truncation gives blocks back, so the sectors of one content are all from before it, or all from after it.
        """
        safe = bisect_right(places, certain - 1)
        file = Disk()
        file.inodes[0] = inode
        inode.data.clear()
        versions: list[list[bytes]] = [[]]
        unsafe = range(safe, len(places))
        wanted = {*self._chance.sample(unsafe, min(len(unsafe), _MOST_VERSIONS)), *unsafe[-1:]}
        for number, place in enumerate(places):
            if number == safe:
                versions[-1].append(bytes(inode.data))
            each = self._operations[place]
            file.apply(Operation(each.kind, 0, offset=each.offset, data=each.data, size=each.size))
            if number >= safe:
                if each.kind == "truncate":
                    versions.append([])
                if number in wanted or not versions[-1]:
                    versions[-1].append(bytes(inode.data))
        if safe < len(places):
            inode.data[:] = self._torn(versions)

    def _torn(self, versions: Sequence[Sequence[bytes]]) -> bytes:
        drawn = self._chance.random()
        if drawn < 0.3:
            return versions[0][0]
        if drawn < 0.5:
            return versions[-1][-1]
        choices = self._chance.choice(versions)
        size = len(self._chance.choice(choices))
        found = bytearray(size)
        for start in range(0, size, SECTOR):
            piece = self._chance.choice(choices)[start : min(start + SECTOR, size)]
            found[start : start + len(piece)] = piece
        return bytes(found)
