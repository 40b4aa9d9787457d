"""What the model of a power loss keeps, and what it may lose."""

from __future__ import annotations

import stat
from collections.abc import Sequence

import pytest

from tests.faults.disk import PROFILES, ROOT, SECTOR, Disk, Named, Operation, Profile, after_power_loss

FILE, OTHER, FOLDER = 2, 3, 4
SEEDS = range(200)


def make(inode: int, name: str, directory: int = ROOT, mode: int = stat.S_IFREG | 0o644) -> Operation:
    return Operation("make", inode, (Named(directory, name, inode),), mode=mode)


def write(inode: int, data: bytes, offset: int = 0) -> Operation:
    return Operation("write", inode, data=data, offset=offset)


def fsync(inode: int) -> Operation:
    return Operation("fsync", inode)


def rename(inode: int, old: str, new: str, *, replaces: bool = True) -> Operation:
    return Operation("name", inode, (Named(ROOT, old, None), Named(ROOT, new, inode)), replaces=replaces)


def content(disk: Disk, name: str) -> bytes | None:
    number = disk.inodes[ROOT].names.get(name)
    return None if number is None else bytes(disk.inodes[number].data)


def contents(operations: Sequence[Operation], profile: Profile, name: str, settled: int = 0) -> set[bytes | None]:
    return {content(after_power_loss(operations, profile, seed, settled), name) for seed in SEEDS}


OLD = (make(FILE, "a"), write(FILE, b"old"), fsync(FILE), fsync(ROOT))
NEW = (make(OTHER, "t"), write(OTHER, b"new"))


@pytest.mark.parametrize("profile", PROFILES)
def test_synced_replacement_is_old_or_new(profile: Profile) -> None:
    operations = [*OLD, *NEW, fsync(OTHER), rename(OTHER, "t", "a")]
    assert contents(operations, profile, "a") == {b"old", b"new"}
    assert contents([*operations, fsync(ROOT)], profile, "a") == {b"new"}


@pytest.mark.parametrize(("profile", "is_empty"), [("ext4", False), ("xfs", True), ("btrfs", True), ("posix", True)])
def test_replacement_that_was_not_synced_may_be_empty(profile: Profile, is_empty: bool) -> None:
    found = contents([*OLD, *NEW, rename(OTHER, "t", "a")], profile, "a")
    assert (b"" in found) == is_empty
    assert {b"old", b"new"} <= found


@pytest.mark.parametrize(("profile", "is_certain"), [("ext4", True), ("xfs", True), ("btrfs", True), ("posix", False)])
def test_name_of_a_synced_file_needs_its_directory_by_the_standard_alone(profile: Profile, is_certain: bool) -> None:
    found = contents([make(FILE, "a"), write(FILE, b"x"), fsync(FILE)], profile, "a")
    assert found == ({b"x"} if is_certain else {b"x", None})


def test_xfs_syncs_no_later_names_of_other_files() -> None:
    operations = [make(FILE, "a"), make(OTHER, "b"), fsync(FILE)]
    assert None in contents(operations, "xfs", "b")
    assert None not in contents(operations, "ext4", "b")


def test_btrfs_syncs_new_directories_above() -> None:
    operations = [make(FOLDER, "d", mode=stat.S_IFDIR | 0o755), make(FILE, "a", FOLDER), fsync(FILE)]
    for seed in SEEDS:
        disk = after_power_loss(operations, "btrfs", seed)
        assert disk.inodes[disk.inodes[ROOT].names["d"]].names == {"a": FILE}


def test_writes_are_torn_at_sectors() -> None:
    operations = [make(FILE, "a"), write(FILE, b"o" * 4 * SECTOR), fsync(FILE), write(FILE, b"n" * 3 * SECTOR)]
    torn = False
    for found in contents(operations, "ext4", "a"):
        assert found is not None
        sectors = [found[start : start + SECTOR] for start in range(0, 4 * SECTOR, SECTOR)]
        assert all(len(set(each)) == 1 for each in sectors)
        assert sectors[3] == b"o" * SECTOR
        torn = torn or sectors[:3] == [b"o" * SECTOR, b"n" * SECTOR, b"o" * SECTOR]
    assert torn


def test_truncation_and_append_without_fsync_leave_zeros() -> None:
    operations = [*OLD, Operation("truncate", FILE, size=0), write(FILE, b"x" * 2 * SECTOR)]
    found = contents(operations, "xfs", "a")
    assert {b"old", b"", b"x" * 2 * SECTOR} <= found
    assert b"\0" * SECTOR + b"x" * SECTOR in found
    assert b"\0" * 3 not in found


def test_settled_operations_are_kept() -> None:
    operations = [make(FILE, "a"), write(FILE, b"x")]
    assert contents(operations, "posix", "a", settled=2) == {b"x"}


def test_disk_that_lies_about_fsync_loses_synced_data() -> None:
    operations = [*OLD[:2], fsync(FILE), fsync(ROOT)]
    found = {content(after_power_loss(operations, "ext4", seed, lies=True), "a") for seed in SEEDS}
    assert {None, b""} <= found


def test_same_seed_gives_the_same_disk() -> None:
    operations = [*OLD, *NEW, rename(OTHER, "t", "a"), write(OTHER, b"more", 3)]
    for profile in PROFILES:
        first, second = (after_power_loss(operations, profile, 7) for _ in range(2))
        assert first.inodes == second.inodes
