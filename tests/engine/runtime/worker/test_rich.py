"""The rich forms of values: what notebooks show, and values that misbehave while they are shown."""

from __future__ import annotations

import time
from base64 import b64encode
from typing import Any

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

from engine.core.pictures import LARGEST_BYTES, PNG
from engine.runtime.results import ServerAnswer
from engine.runtime.worker.statements import rich
from engine.runtime.worker.statements.rich import MARKDOWN_CHARS, NOTHING, RichForm, rich_form
from tests.support.pictures import opened, png

mpl.use("Agg")


class Shows:
    """Has the methods that it is made with."""

    def __new__(cls, **methods: Any) -> Any:
        return object.__new__(
            type("Shows", (), {name: lambda _, made=made, **__: made() for name, made in methods.items()})
        )


def raises() -> Any:
    raise ValueError("no\nluck")


@pytest.mark.parametrize("value", [None, 1, "text", [1, 2], {}, (), Shows, object(), [[]]])
def test_most_values_have_none(value: object) -> None:
    assert rich_form(value) == NOTHING


@pytest.mark.parametrize(
    ("methods", "form"),
    [
        ({"_repr_png_": png}, RichForm(picture=png(), media_type=PNG)),
        ({"_repr_png_": lambda: (png(), {"width": 3})}, RichForm(picture=png(), media_type=PNG)),
        ({"_repr_png_": lambda: b64encode(png()).decode()}, RichForm(picture=png(), media_type=PNG)),
        ({"_repr_jpeg_": lambda: b"\xff\xd8\xff"}, RichForm(picture=b"\xff\xd8\xff", media_type="image/jpeg")),
        ({"_repr_markdown_": lambda: "**bold**"}, RichForm(markdown="**bold**")),
        ({"_repr_mimebundle_": lambda: {"image/png": png(), "text/markdown": "x"}}, RichForm("", png(), PNG)),
        ({"_repr_mimebundle_": lambda: ({"text/markdown": "x"}, {})}, RichForm("x")),
        ({"_repr_mimebundle_": lambda: {"text/html": "x"}, "_repr_markdown_": lambda: "y"}, RichForm("y")),
        ({"_repr_png_": lambda: None, "_repr_markdown_": lambda: "y"}, RichForm("y")),
    ],
)
def test_methods_of_notebooks_are_called(methods: dict[str, Any], form: RichForm) -> None:
    assert rich_form(Shows(**methods)) == form


@pytest.mark.parametrize(
    ("methods", "note"),
    [
        ({"_repr_png_": raises}, "[_repr_png_ raised ValueError: no luck]"),
        ({"_repr_png_": lambda: "not base64"}, "[_repr_png_ returned str, which is not valid content]"),
        ({"_repr_png_": lambda: 7}, "[_repr_png_ returned int, which is not valid content]"),
        ({"_repr_markdown_": lambda: b"x"}, "[_repr_markdown_ returned bytes, which is not valid content]"),
        ({"_repr_mimebundle_": lambda: [1]}, "[_repr_mimebundle_ returned list, which is not valid content]"),
        ({"_repr_mimebundle_": raises}, "[_repr_mimebundle_ raised ValueError: no luck]"),
        ({"_repr_png_": lambda: bytes(LARGEST_BYTES + 1)}, "[_repr_png_ returned 20.0 MB; the limit is 20.0 MB]"),
    ],
)
def test_a_failure_is_a_line(methods: dict[str, Any], note: str) -> None:
    assert rich_form(Shows(**methods)) == RichForm(note=note)


def test_a_method_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rich, "SECONDS", 0.05)

    def hang() -> Any:
        while True:
            try:
                time.sleep(60)
            except Exception:
                time.sleep(60)

    assert rich_form(Shows(_repr_png_=hang)).note == "[_repr_png_ took longer than 0.05 s]"


def test_an_interrupt_passes() -> None:
    def interrupted() -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rich_form(Shows(_repr_png_=interrupted))


def test_figures_and_what_they_contain_are_pictures() -> None:
    figure = Figure(figsize=(2, 1), dpi=100)
    axes = figure.subplots()
    lines = axes.plot([1, 2, 3])
    for value in (figure, axes, lines, (figure, axes)):
        assert opened(rich_form(value).picture).format == "PNG"
    assert rich_form(figure) == rich_form(figure)


def test_images_of_pillow_are_pictures() -> None:
    assert opened(rich_form(Image.new("RGB", (5, 4))).picture).size == (5, 4)


def test_tables_are_markdown() -> None:
    frame = pd.DataFrame({"name": ["a|b", "c\nd"], "value": [1.5, float("nan")]})
    assert rich_form(frame).markdown == (
        "|  | name | value |\n| --- | --- | --- |\n| 0 | a\\|b | 1.5 |\n| 1 | c d | nan |\n\n2 rows x 2 columns"
    )


def test_long_tables_show_their_ends() -> None:
    text = rich_form(pd.DataFrame({"n": range(1000), "m": range(1000)})).markdown
    assert "| 0 | 0 | 0 |" in text
    assert "| … | … | … |" in text
    assert "| 999 | 999 | 999 |\n\n1,000 rows x 2 columns" in text
    wide = rich_form(pd.DataFrame([{f"column {number}": "x" * 100 for number in range(200)}] * 50)).markdown
    assert len(wide) <= MARKDOWN_CHARS
    assert "50 rows x 200 columns" in wide


def test_tables_of_polars_are_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    class DataFrame:
        """As polars has it."""

        shape, columns = (1, 2), ["a", "b"]

        def __getitem__(self, _columns: Any) -> DataFrame:
            return self

        def rows(self) -> list[tuple[int, str]]:
            return [(1, "x")]

    monkeypatch.setitem(rich.sys.modules, "polars", type("polars", (), {"DataFrame": DataFrame}))
    assert rich_form(DataFrame()).markdown == "| a | b |\n| --- | --- |\n| 1 | x |\n\n1 rows x 2 columns"


def test_answers_of_servers_are_their_pictures() -> None:
    image = {"type": "image", "data": b64encode(png()).decode(), "mimeType": PNG}
    resource = {"uri": "x:", "blob": b64encode(png(9, 9)).decode(), "mimeType": PNG}
    sound = {"type": "audio", "data": "AAEC", "mimeType": "audio/wav"}
    answer = ServerAnswer([{"type": "text", "text": "x"}, sound, image, {"type": "resource", "resource": resource}])
    assert rich_form(answer) == RichForm(picture=png(), media_type=PNG, others=((PNG, png(9, 9)),))
    assert rich_form(ServerAnswer([sound])) == NOTHING
    broken = rich_form(ServerAnswer([{**image, "data": "A"}]))
    assert broken.note.startswith("[its pictures raised Error: ")
    large = b64encode(bytes(LARGEST_BYTES // 2 + 1)).decode()
    assert "the limit is 20.0 MB" in rich_form(ServerAnswer([{**image, "data": large}] * 2)).note
