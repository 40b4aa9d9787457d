"""The host's client of the process that decodes pictures, and the only maker of a new `PictureContent`.

The zygote forks the process when a request comes (`worker.forking.outlining`): it has no keys, network or files to
write, and limits of memory and time. What comes back is checked for its form and never decoded here. Must not know
sessions.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import xxhash
from msgspec import Struct

from ..core.errors import EnvironmentUnavailableError
from ..core.pictures import DECODED, LARGEST_BYTES, GivenPicture, Picture, PictureContent, is_picture
from ..files.outline.parser_messages import Decoded, PictureRequest, decoded_of
from .worker.handles.outlines import exchange

SECONDS: Final = 20.0
"""The time limit of one answer. The process itself has five seconds of processor time."""
UNKNOWN_KIND: Final = "only PNG, JPEG, GIF and WebP are supported as pictures"
TOO_LONG: Final = f"the file is longer than {LARGEST_BYTES // 1000000} MB"
NO_DECODER: Final = "the process that decodes pictures is not available"
ENDED: Final = "decoding the picture took too much time or memory"
BROKEN: Final = "the picture cannot be read"


class DecodedPicture(Struct, frozen=True):
    """A picture to keep, without the digest of its content; `content` is None if it has a problem."""

    picture: Picture
    content: PictureContent | None


class PictureDecoder:
    """Decodes the pictures of all sessions of a process, one at a time. Methods may be called on any thread."""

    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        """`connect` returns a socket to the process, and may raise OSError or EnvironmentUnavailableError."""
        self._connect = connect
        self._connection: socket.socket | None = None
        self._lock = threading.Lock()
        self._number = 0

    def decode(self, given: GivenPicture) -> DecodedPicture:
        """Decode a picture; one that cannot be decoded has a `problem`. Blocks for at most `SECONDS`."""
        media_type = given.media_type.partition(";")[0].strip().lower()
        problem = UNKNOWN_KIND if media_type not in DECODED else TOO_LONG if len(given.data) > LARGEST_BYTES else ""
        decoded = Decoded(reason=problem) if problem else self._asked(given)
        digest = xxhash.xxh3_128_hexdigest(given.data)
        if decoded.reason or not is_picture(decoded.media_type, decoded.data):
            reason = decoded.reason or BROKEN
            broken = Picture(name=given.name, size=len(given.data), digest=digest, problem=reason)
            return DecodedPicture(broken, None)
        picture = Picture(
            name=given.name,
            media_type=decoded.media_type,
            width=decoded.width,
            height=decoded.height,
            size=len(decoded.data),
            digest=digest,
        )
        return DecodedPicture(picture, PictureContent(decoded.data))

    def close(self) -> None:
        """Close the connection, which ends the process. The object can be used again."""
        with self._lock:
            self._drop()

    def _asked(self, given: GivenPicture) -> Decoded:
        with self._lock:
            self._number += 1
            for _ in range(2):  # because a closed socket is replaced once
                with suppress(OSError, EnvironmentUnavailableError):
                    self._connection = self._connection or self._connect()
                if self._connection is None:
                    continue
                try:
                    body = exchange(self._connection, self._number, PictureRequest(given.data, given.pixels), SECONDS)
                    return Decoded(reason=ENDED) if body is None else _readable(decoded_of(body))
                except TimeoutError:
                    self._drop()
                    return Decoded(reason=ENDED)
                except ValueError:
                    return Decoded(reason=BROKEN)
                except OSError:
                    self._drop()
        return Decoded(reason=NO_DECODER)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _readable(decoded: Decoded) -> Decoded:
    """Replace an error of the library, which means nothing to people, by a clause."""
    kind, mark, _ = decoded.reason.partition("Error: ")
    if not mark:
        return decoded
    return Decoded(reason={"Memory": ENDED, "Import": NO_DECODER, "ModuleNotFound": NO_DECODER}.get(kind, BROKEN))
