"""The files of pictures in a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.cli.terminal.picture_files import PictureFiles
from engine.core.ids import BlobDigest
from engine.core.pictures import Picture, PictureContent, description
from tests.support.commands import Home
from tests.support.pictures import opened, png

PICTURE = Picture(name="plot", media_type="image/png", width=8, height=6, size=70, digest="0123456789abcdef01")


@pytest.mark.parametrize("digest", [PICTURE.digest, "../../../../evil", "/evil", ""])
def test_a_picture_is_written_once_below_the_cache(tmp_path: Path, digest: str) -> None:
    picture = replace(PICTURE, digest=BlobDigest(digest))
    content = PictureContent(png())
    files = PictureFiles(lambda _: content, {"XDG_CACHE_HOME": str(tmp_path)})
    line = files.line(picture)
    (path,) = (tmp_path / "rewindow" / "pictures").iterdir()
    assert line == f"{description(picture)} {path}"
    assert path.suffix == ".png"
    assert path.read_bytes() == content
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.stat().st_mtime_ns
    files.line(picture)
    assert path.stat().st_mtime_ns == before
    assert [*path.parent.iterdir()] == [path]


def test_a_picture_that_cannot_be_written_is_described(tmp_path: Path) -> None:
    (tmp_path / "rewindow").write_text("no folder")
    files = PictureFiles(lambda _: PictureContent(png()), {"XDG_CACHE_HOME": str(tmp_path)})
    assert files.line(PICTURE) == description(PICTURE)
    assert PictureFiles(lambda _: None, {"HOME": str(tmp_path)}).line(PICTURE) == description(PICTURE)


def test_one_prompt_prints_the_path_of_its_picture(tmp_path: Path) -> None:
    source = "from PIL import Image\nImage.new('RGB', (20, 10), (255, 0, 0))"
    done = Home(tmp_path).run_as_process("run", "-p", source)
    found = re.search(r"\[picture statement-1, 20x10, \d+ bytes\] (\S+\.png)\n", done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert opened(Path(found[1]).read_bytes()).getpixel((0, 0)) == (255, 0, 0)
