"""Decoding of pictures, in the confined process that `outlining` starts: bytes from anywhere become a plain picture.

The picture is read to its pixels and written again, so nothing of the file but pixels remains: no EXIF, profile or
comment, and nothing that another reader could take for something else. It is turned as its EXIF says, and scaled to the
limits in `core.pictures`. A JPEG stays one; others become PNG, with their transparency, unless that is too large.

Imports Pillow, which no other process of this program does. Must not know where a picture comes from.
"""

from __future__ import annotations

import warnings
from io import BytesIO
from math import ceil
from typing import Final

from PIL import Image, ImageOps

from ....core.pictures import JPEG, LONGEST_EDGE, MOST_BYTES, MOST_PIXELS, PNG, StoredKind
from ....files.outline.parser_messages import Decoded

_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")
_QUALITIES: Final = (90, 75, 50)
_COMPRESSION: Final = 1
"""Of PNG, from 1 to 9: a higher level takes several times as long and saves a tenth."""
_DENSE: Final = 0.7
_LARGE: Final = 1_000_000
"""A larger file with more bytes for each pixel counts as a photo, whose PNG would be large and slow."""
_SIXTEEN_BITS: Final = 1 / 256
_GAP: Final = 1.0
"""How much larger than the result, at least, a picture is left by the fast scaling that comes before the exact one."""
_WHITE: Final = (255, 255, 255)


def decode(data: bytes, pixels: int = 0) -> Decoded:
    """Return the picture as a session keeps it, or why it cannot. Raises what Pillow raises for a broken file.

    With `pixels` the result has at most so many, but at least one in each direction.
    """
    warnings.simplefilter("ignore")  # about sizes, which are checked here
    Image.MAX_IMAGE_PIXELS = None
    image = Image.open(BytesIO(data), formats=_FORMATS)
    pixel_count = image.width * image.height
    if pixel_count > MOST_PIXELS:
        return Decoded(reason=f"the picture has {image.width:,} x {image.height:,} pixels, more than {MOST_PIXELS:,}")
    is_photo = image.format == "JPEG"
    share = min((pixels / pixel_count) ** 0.5, 1) if pixels else 1
    edge = max(min(LONGEST_EDGE, int(max(image.size) * share)), 1)
    scale = edge / max(image.size)
    # Reads a large JPEG at a fraction of its size.
    image.draft("RGB", (ceil(image.width * scale), ceil(image.height * scale)))
    ImageOps.exif_transpose(image, in_place=True)
    plain = _plain(image)
    plain.thumbnail((edge, edge), Image.Resampling.BICUBIC, reducing_gap=_GAP)
    is_dense = len(data) > max(_DENSE * pixel_count, _LARGE) and plain.mode != "RGBA"
    return _written(plain, is_photo=is_photo or is_dense)


def _plain(image: Image.Image) -> Image.Image:
    """Return the first frame in one of the modes that are written: L, RGB or RGBA."""
    if image.mode.startswith("I"):
        image = image.point(lambda value: value * _SIXTEEN_BITS)
    if image.has_transparency_data:
        return image.convert("RGBA")
    return image if image.mode in ("L", "RGB") else image.convert("L" if image.mode in ("1", "I", "F") else "RGB")


def _written(image: Image.Image, *, is_photo: bool) -> Decoded:
    if not is_photo:
        data = _saved(image, PNG)
        if len(data) <= MOST_BYTES:
            return Decoded(data, PNG, image.width, image.height)
    flat = _flattened(image)
    while True:
        for quality in _QUALITIES:
            data = _saved(flat, JPEG, quality)
            if len(data) <= MOST_BYTES:
                return Decoded(data, JPEG, flat.width, flat.height)
        flat = flat.reduce(2)


def _flattened(image: Image.Image) -> Image.Image:
    """Return the picture on white, because JPEG has no transparency."""
    if image.mode != "RGBA":
        return image
    flat = Image.new("RGB", image.size, _WHITE)
    flat.paste(image, mask=image)
    return flat


def _saved(image: Image.Image, media_type: StoredKind, quality: int = 0) -> bytes:
    out = BytesIO()
    image.info = {}  # what the file said beside its pixels
    if media_type == PNG:
        image.save(out, "PNG", compress_level=_COMPRESSION)
    else:
        image.save(out, "JPEG", quality=quality)
    return out.getvalue()
