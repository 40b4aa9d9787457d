"""Both implementations of extended attributes have the same behavior."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.support.other_system import IMPLEMENTATIONS, implementation


@pytest.mark.parametrize("which", IMPLEMENTATIONS)
def test_attributes_are_copied(which: str, tmp_path: Path) -> None:
    attributes = implementation("engine.runtime.system.attributes", which)
    linux = implementation("engine.runtime.system.attributes", "linux")
    with (tmp_path / "a").open("wb") as source, (tmp_path / "b").open("wb") as target:
        assert attributes.names_of(source.fileno()) == []
        for name, value in (("user.one", b"1\0x"), ("user.empty", b"")):
            try:
                linux.os.setxattr(source.fileno(), name, value)
            except OSError as error:
                if error.errno == errno.ENOTSUP:
                    pytest.skip("this file system has no attributes")
                raise
        assert sorted(attributes.names_of(source.fileno())) == ["user.empty", "user.one"]
        for name in attributes.names_of(source.fileno()):
            attributes.copy(name, source.fileno(), target.fileno())
        assert linux.os.getxattr(target.fileno(), "user.one") == b"1\0x"
        assert linux.os.getxattr(target.fileno(), "user.empty") == b""
        with pytest.raises(OSError, match=r"No data"):
            attributes.copy("user.none", source.fileno(), target.fileno())
