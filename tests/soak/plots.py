"""Small charts of many series in one SVG, which browsers and editors show. Must not know what the series mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_WIDTH: Final = 300
_HEIGHT: Final = 120
_GAP: Final = 44
_MARGIN: Final = 24
_COLUMNS: Final = 3
_CALM, _WRONG, _GREY, _INK = "#2563a8", "#c62828", "#9aa3ad", "#24292f"


@dataclass(frozen=True)
class Chart:
    """One series: `points` are drawn as a line. `top` and `bottom` are the labels of its range."""

    title: str
    points: Sequence[tuple[float, float]]
    top: str
    bottom: str
    note: str = ""
    is_wrong: bool = False
    warm_up: float = 0.0
    """Up to here the background is grey."""


def svg(title: str, x_label: str, charts: Sequence[Chart]) -> str:
    """Draw the charts in rows of three, each from zero to its largest value."""
    rows = -(-len(charts) // _COLUMNS)
    width = _COLUMNS * (_WIDTH + _MARGIN) + _MARGIN
    height = rows * (_HEIGHT + _GAP) + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' font-family="sans-serif" font-size="11" fill="{_INK}">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_MARGIN}" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="{width - _MARGIN}" y="24" text-anchor="end" fill="{_GREY}">{escape(x_label)}</text>',
    ]
    for number, chart in enumerate(charts):
        left = _MARGIN + number % _COLUMNS * (_WIDTH + _MARGIN)
        parts += _chart(chart, left, 56 + number // _COLUMNS * (_HEIGHT + _GAP))
    return "\n".join([*parts, "</svg>", ""])


def _chart(chart: Chart, left: float, top: float) -> list[str]:
    first, last = chart.points[0][0], chart.points[-1][0]
    across = _WIDTH / ((last - first) or 1.0)
    up = _HEIGHT / (max(value for _, value in chart.points) or 1.0)
    line = " ".join(f"{left + (x - first) * across:.1f},{top + _HEIGHT - y * up:.1f}" for x, y in chart.points)
    warm = max(0.0, chart.warm_up - first) * across
    colour = _WRONG if chart.is_wrong else _CALM
    return [
        f'<rect x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" fill="#f6f8fa"/>',
        f'<rect x="{left}" y="{top}" width="{warm:.1f}" height="{_HEIGHT}" fill="#e4e8ec"/>',
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.3"/>',
        f'<text x="{left}" y="{top - 5}" font-weight="bold">{escape(chart.title)}</text>',
        f'<text x="{left + 4}" y="{top + 12}" fill="{_GREY}">{escape(chart.top)}</text>',
        f'<text x="{left + 4}" y="{top + _HEIGHT - 4}" fill="{_GREY}">{escape(chart.bottom)}</text>',
        f'<text x="{left + _WIDTH}" y="{top - 5}" text-anchor="end" fill="{colour}">{escape(chart.note)}</text>',
    ]
