"""Pictures decoded by a confined process: what is kept of a file, its limits, and files that attack the decoder."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from engine.core.pictures import LARGEST_BYTES, LONGEST_EDGE, MOST_BYTES, GivenPicture
from engine.runtime.picture_decoder import BROKEN, ENDED, TOO_LONG, UNKNOWN_KIND, DecodedPicture, PictureDecoder
from engine.runtime.sandbox import seccomp
from engine.runtime.system.process_table import children_of
from tests.support.pictures import SVG, bomb, jpeg, noise, opened, png
from tests.support.workers import shared_zygote


@pytest.fixture
def decoder() -> Iterator[PictureDecoder]:
    made = PictureDecoder(shared_zygote().ask_outlines)
    yield made
    made.close()


def decoded(decoder: PictureDecoder, data: bytes, media_type: str = "image/png") -> DecodedPicture:
    return decoder.decode(GivenPicture("a.png", media_type, data))


def problem(decoder: PictureDecoder, data: bytes, media_type: str = "image/png") -> str:
    found = decoded(decoder, data, media_type)
    assert found.content is None
    assert found.picture.size == len(data)
    return found.picture.problem


def test_small_picture_keeps_its_size_and_transparency(decoder: PictureDecoder) -> None:
    found = decoded(decoder, png(30, 20, (1, 2, 3, 128)))
    picture = found.picture
    assert (picture.width, picture.height, picture.media_type, picture.problem) == (30, 20, "image/png", "")
    assert found.content is not None
    assert picture.size == len(found.content)
    assert opened(found.content).getpixel((0, 0)) == (1, 2, 3, 128)


def test_large_picture_is_scaled_to_the_longest_edge(decoder: PictureDecoder) -> None:
    picture = decoded(decoder, png(4000, 1000)).picture
    assert (picture.width, picture.height) == (LONGEST_EDGE, LONGEST_EDGE // 4)


def test_picture_is_scaled_to_the_asked_pixels(decoder: PictureDecoder) -> None:
    for data in (png(1000, 500), png(10, 2000)):
        picture = decoder.decode(GivenPicture("a.png", "image/png", data, pixels=5_000)).picture
        assert 1 <= picture.width * picture.height <= 5_000
        assert picture.problem == ""
    small = decoder.decode(GivenPicture("a.png", "image/png", png(9, 8), pixels=5_000)).picture
    assert (small.width, small.height) == (9, 8)
    assert decoder.decode(GivenPicture("a.png", "image/png", png(900, 800), pixels=1)).picture.width == 1


def test_heavy_picture_becomes_a_jpeg_within_the_limit(decoder: PictureDecoder) -> None:
    data = jpeg(noise(1500, 1500), quality=100)
    found = decoded(decoder, data, "image/jpeg")
    assert found.content is not None
    assert opened(found.content).format == "JPEG"
    assert len(found.content) <= MOST_BYTES < len(data)


def test_orientation_is_applied_and_metadata_dropped(decoder: PictureDecoder) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    exif[0x010E] = "where I live"
    found = decoded(decoder, jpeg(Image.new("RGB", (40, 20)), exif=exif, comment=b"secret"), "image/jpeg")
    assert (found.picture.width, found.picture.height) == (20, 40)
    assert found.content is not None
    assert b"where I live" not in found.content
    assert b"secret" not in found.content
    assert not opened(found.content).getexif()


@pytest.mark.parametrize("kind", ["GIF", "WEBP"])
def test_other_kinds_become_png(decoder: PictureDecoder, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    Image.new("RGB", (5, 4), (9, 9, 9)).save(path, kind)
    picture = decoded(decoder, path.read_bytes(), f"image/{kind.lower()}").picture
    assert (picture.width, picture.height, picture.media_type) == (5, 4, "image/png")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "CMYK", "I;16"])
def test_every_mode_is_read(decoder: PictureDecoder, mode: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    kind = "JPEG" if mode == "CMYK" else "PNG"
    Image.new(mode, (5, 4)).save(path, kind)
    assert decoded(decoder, path.read_bytes(), f"image/{kind.lower()}").picture.problem == ""


def test_bomb_is_refused_by_its_pixels(decoder: PictureDecoder) -> None:
    assert "40,000 x 40,000 pixels" in problem(decoder, bomb())
    assert decoded(decoder, png()).picture.problem == ""


def test_broken_files_are_told(decoder: PictureDecoder) -> None:
    whole = png(200, 200)
    assert problem(decoder, whole[: len(whole) // 2]) == BROKEN
    assert problem(decoder, b"") == BROKEN
    assert problem(decoder, b"GIF89a") == BROKEN
    assert problem(decoder, bomb(3000, 3000)) == BROKEN  # its pixels are missing


def test_svg_is_not_decoded(decoder: PictureDecoder) -> None:
    assert problem(decoder, SVG, "image/svg+xml") == UNKNOWN_KIND
    assert problem(decoder, SVG, "image/png") == BROKEN


def test_long_file_is_not_sent(decoder: PictureDecoder) -> None:
    assert problem(decoder, bytes(LARGEST_BYTES + 1)) == TOO_LONG


def test_equal_files_have_equal_digests(decoder: PictureDecoder) -> None:
    one, same, other = (decoded(decoder, data).picture.digest for data in (png(), png(), png(9, 9)))
    assert one == same != other


def test_death_of_the_process_is_told_and_another_one_decodes(decoder: PictureDecoder) -> None:
    before = set(children_of(str(shared_zygote().pid)) or ())
    assert decoded(decoder, png()).picture.problem == ""
    (pid,) = set(children_of(str(shared_zygote().pid)) or ()) - before
    os.kill(pid, signal.SIGSTOP)  # so that it has the request when it ends
    killed = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
    killed.start()
    assert problem(decoder, png()) == ENDED
    killed.join()
    assert decoded(decoder, png()).picture.problem == ""


@pytest.mark.skipif(bool(seccomp.missing()), reason="this kernel has no filter of system calls")
def test_the_process_is_confined_and_has_no_keys(decoder: PictureDecoder) -> None:
    before = set(children_of(str(shared_zygote().pid)) or ())
    decoded(decoder, png())
    (pid,) = set(children_of(str(shared_zygote().pid)) or ()) - before
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
    names = {line.partition("=")[0] for line in Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0") if line}
    assert names <= {"PYTHONHASHSEED", "GLIBC_TUNABLES", "LD_LIBRARY_PATH"}
