"""The rich form of a statement's last value, as notebooks show it: a picture, or Markdown.

Asked are, in this order, a figure of matplotlib, a table of pandas or polars, the pictures of an MCP server's answer,
and the value's own methods: `_repr_mimebundle_`, `_repr_png_`, `_repr_jpeg_`, `_repr_markdown_`. A view of a picture's
file has the first one. No library is imported: only a module that the statement has loaded can have made the value. All
of it is user code, so callers run it under the interrupt flag. It also has a time limit of its own. A failure is a
`note`, and never the statement's. Must not know who shows the form. Used by the executor.
"""

from __future__ import annotations

import signal
import sys
import threading
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any, Final, NamedTuple, cast

from ....core.pictures import DECODED, JPEG, LARGEST_BYTES, PNG, size_text
from ....core.text import cut_line, cut_middle, more
from ....files.view import ViewHandle
from ...results import ServerAnswer

SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.5
"""The limit is raised again after so many seconds, because user code may catch it."""
MARKDOWN: Final = "text/markdown"
MARKDOWN_CHARS: Final = 4_000
"""Every context window has room for a value of this length, so no host cuts it further."""
MOST_ROWS: Final = 30
MOST_COLUMNS: Final = 20
_CELL_CHARS: Final = 60
_NOTE_CHARS: Final = 200
_SPECIAL: Final = str.maketrans({each: f"\\{each}" for each in "\\`*_[]<>|!~#"})
"""Characters that Markdown would not show in a cell."""
_METHODS: Final = (("_repr_png_", PNG), ("_repr_jpeg_", JPEG), ("_repr_markdown_", MARKDOWN))
_BUNDLE: Final = "_repr_mimebundle_"


class RichForm(NamedTuple):
    """`picture` with its `media_type`, or `markdown`, or neither. `note` is a line about a form that failed.

    `name` and `pixels` are a view's, for the file of a picture and the size of its copy. `others` are further pictures,
    each with its media type.
    """

    markdown: str = ""
    picture: bytes = b""
    media_type: str = ""
    note: str = ""
    name: str = ""
    pixels: int = 0
    others: tuple[tuple[str, bytes], ...] = ()


NOTHING: Final = RichForm()


class _LimitReached(BaseException):
    """Raised in user code at the limit. A BaseException, so that it passes through `except Exception`."""


def rich_form(value: object) -> RichForm:
    """Return the rich form of a value; `NOTHING` if it has none. Raises KeyboardInterrupt for an interrupt alone."""
    made: list[str] = []
    try:
        with _limited():
            return _form(value, made.append)
    except _LimitReached:
        return RichForm(note=f"[{made[-1]} took longer than {SECONDS:g} s]" if made else "")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return RichForm(note=f"[{(made[-1] if made else 'showing the value')} raised {_said(error)}]")


def _said(error: BaseException) -> str:
    try:
        return cut_line(f"{type(error).__name__}: {error}".replace("\n", " "), _NOTE_CHARS)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return type(error).__name__


@contextmanager
def _limited() -> Generator[None]:
    """Raise `_LimitReached` after `SECONDS`: in a main thread whose alarm nobody else has set."""
    if threading.current_thread() is not threading.main_thread() or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return
    is_over = False

    def end(*_: object) -> None:
        if not is_over:
            raise _LimitReached

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, SECONDS, _AGAIN_SECONDS)
    try:
        yield
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _form(value: object, begins: Callable[[str], None]) -> RichForm:
    """Make the form; `begins` is told what is called."""
    figure = _figure_of(value)
    if figure is not None:
        begins("savefig")
        out = BytesIO()
        figure.savefig(out, format="png", bbox_inches="tight")
        return _picture("savefig", out.getvalue(), PNG)
    table = _table_of(value)
    if table is not None:
        begins("its table")
        return RichForm(markdown=table())
    if isinstance(value, ServerAnswer):
        begins("its pictures")
        return _of_server(value)
    return NOTHING if isinstance(value, type) else _of_methods(value, begins)


def _of_methods(value: object, begins: Callable[[str], None]) -> RichForm:
    kind = type(value)
    if hasattr(kind, _BUNDLE):
        begins(_BUNDLE)
        bundle: object = cast("Any", value)._repr_mimebundle_(include=None, exclude=None)
        form = _of_bundle(_data_of(bundle))
        if isinstance(value, ViewHandle) and form.picture:
            form = form._replace(name=value.title, pixels=value.picture_pixels)
        if form is not NOTHING:
            return form
    for name, media_type in _METHODS:
        if hasattr(kind, name):
            begins(name)
            form = _of_data(name, _data_of(getattr(value, name)()), media_type)
            if form is not NOTHING:
                return form
    return NOTHING


def _data_of(returned: Any) -> object:
    """Return the data of what a method returned, which may be a tuple of data and metadata."""
    is_pair = isinstance(returned, tuple) and len(cast("tuple[object, ...]", returned)) > 0
    return cast("Any", returned)[0] if is_pair else cast("object", returned)


def _of_bundle(bundle: object) -> RichForm:
    if not isinstance(bundle, Mapping):
        return NOTHING if bundle is None else _wrong(_BUNDLE, bundle)
    found = cast("Mapping[object, object]", bundle)
    for media_type in (*DECODED, MARKDOWN):
        if found.get(media_type):
            return _of_data(f"{_BUNDLE}, {media_type}", found[media_type], media_type)
    return NOTHING


def _of_data(name: str, data: object, media_type: str) -> RichForm:
    """Return the form of data: text, or bytes, which may be base64."""
    if data is None:
        return NOTHING
    if media_type == MARKDOWN:
        is_text = isinstance(data, str)
        return RichForm(markdown=cut_middle(data, MARKDOWN_CHARS)) if is_text else _wrong(name, data)
    if isinstance(data, str):
        try:
            return _picture(name, a2b_base64(data, strict_mode=True), media_type)
        except (Base64Error, ValueError):
            return _wrong(name, data)
    return _picture(name, data, media_type) if isinstance(data, bytes) else _wrong(name, data)


def _wrong(name: str, data: object) -> RichForm:
    return RichForm(note=f"[{name} returned {type(data).__name__}, which is not valid content]")


def _picture(name: str, data: bytes, media_type: str) -> RichForm:
    return _too_large(name, len(data)) if len(data) > LARGEST_BYTES else RichForm(picture=data, media_type=media_type)


def _too_large(name: str, size: int) -> RichForm:
    return RichForm(note=f"[{name} returned {size_text(size)}; the limit is {size_text(LARGEST_BYTES)}]")


def _of_server(answer: ServerAnswer) -> RichForm:
    """Return the pictures in the answer of an MCP server, as images and as blobs of resources."""
    found: list[tuple[str, bytes]] = []
    for block in answer.content:
        resource = block.get("resource")
        held = cast("dict[str, Any]", resource) if isinstance(resource, dict) else block
        media_type, data = held.get("mimeType"), held.get("blob") if held is resource else held.get("data")
        if isinstance(media_type, str) and media_type in DECODED and isinstance(data, str):
            found.append((media_type, a2b_base64(data)))
    size = sum(len(data) for _, data in found)
    if not found:
        return NOTHING
    if size > LARGEST_BYTES:
        return _too_large("the server", size)
    (media_type, picture), *others = found
    return RichForm(picture=picture, media_type=media_type, others=tuple(others))


# --- figures ---------------------------------------------------------------------------------------------------------


def _loaded(module: str, name: str) -> type[Any] | None:
    found = getattr(sys.modules.get(module), name, None)
    return cast("type[Any]", found) if isinstance(found, type) else None


def _figure_of(value: object) -> Any:
    """Return the figure that a value is, or belongs to: `plot` returns lines, and `subplots` a figure and axes."""
    figure, artist = _loaded("matplotlib.figure", "Figure"), _loaded("matplotlib.artist", "Artist")
    if figure is None or artist is None:
        return None
    is_sequence = isinstance(value, list | tuple) and bool(cast("Sequence[object]", value))
    first = cast("Any", value)[0] if is_sequence else cast("Any", value)
    if isinstance(first, figure):
        return first
    owner = first.get_figure() if isinstance(first, artist) else None
    return owner if isinstance(owner, figure) else None


# --- tables ----------------------------------------------------------------------------------------------------------


def _table_of(value: object) -> Callable[[], str] | None:
    pandas, polars = _loaded("pandas", "DataFrame"), _loaded("polars", "DataFrame")
    frame = cast("Any", value)
    if pandas is not None and isinstance(value, pandas):
        return lambda: _pandas(frame)
    if polars is not None and isinstance(value, polars):
        return lambda: _polars(frame)
    return None


def _pandas(frame: Any) -> str:
    rows, columns = frame.shape
    shown = frame.iloc[:, :MOST_COLUMNS]
    parts = [shown] if rows <= MOST_ROWS else [shown.iloc[: MOST_ROWS // 2], shown.iloc[rows - MOST_ROWS // 2 :]]
    return _markdown(
        ["", *shown.columns], [part.itertuples(index=True, name=None) for part in parts], (int(rows), int(columns))
    )


def _polars(frame: Any) -> str:
    rows, columns = frame.shape
    shown = frame[:, :MOST_COLUMNS]
    parts = [shown] if rows <= MOST_ROWS else [shown.head(MOST_ROWS // 2), shown.tail(MOST_ROWS // 2)]
    return _markdown(shown.columns, [part.rows() for part in parts], (rows, columns))


def _markdown(header: Sequence[object], parts: Sequence[Iterable[Sequence[object]]], shape: tuple[int, int]) -> str:
    """Return a table; `parts` have its first and last rows. `shape` counts all rows and columns.

    A gap in the middle is marked. More rows are left out there until the table is short enough.
    """
    rows, columns = shape
    head = [_line(header), "|" + " --- |" * len(header)]
    tail = ["", f"{rows:,} rows x {columns:,} columns"]
    tail += [more(columns - MOST_COLUMNS, "column")] if columns > MOST_COLUMNS else []
    body = [_line(row) for part in parts for row in part]
    gap = _line(["…"] * len(header))
    room = MARKDOWN_CHARS - sum(len(line) + 1 for line in (*head, *tail, gap))
    while body and sum(len(line) + 1 for line in body) > room:
        del body[len(body) // 2]
    middle = len(body) // 2
    body[middle:middle] = [gap] if len(body) < rows else []
    return cut_middle("\n".join([*head, *body, *tail]), MARKDOWN_CHARS)


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return cut_line(text.replace("\n", " "), _CELL_CHARS).translate(_SPECIAL)
