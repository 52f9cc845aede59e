"""Draws charts as inline SVG. Colours come from classes, so that one style serves light and dark pages.

Each mark has a title, which browsers show when the pointer rests on it and screen readers read aloud. Each chart has a
title of its own.
"""

from collections.abc import Sequence
from html import escape

from msgspec import Struct

WIDTH = 560
_ROW = 22
_BAR = 14
_LABEL_WIDTH = 128
_VALUE_WIDTH = 112
_COLUMNS_HEIGHT = 150
_LABEL_CHARACTERS_MAX = 20
HEAT_STEPS = 8
"""How many shades a heat map has."""


class Bar(Struct, frozen=True):
    """A bar: a label, a value, and both in words."""

    label: str
    value: float
    shown: str
    title: str


class Part(Struct, frozen=True):
    """A part of a bar that has several."""

    value: float
    style: str
    """The class of its colour."""
    title: str


def bars(title: str, rows: Sequence[Bar], *, mean: float | None = None, mean_title: str = "") -> str:
    """Draws horizontal bars, one below the other, and a line at the mean."""
    largest = max([each.value for each in rows] + [mean or 0.0]) or 1.0
    room = WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
    marks = []
    height = len(rows) * _ROW + 4
    if mean is not None:
        x = _number(_LABEL_WIDTH + room * mean / largest)
        marks.append(
            f'<g><title>{escape(mean_title)}</title><line class="mean" x1="{x}" x2="{x}" y1="0" y2="{height - 4}"/></g>'
        )
    for number, each in enumerate(rows):
        top = number * _ROW + 2
        width = max(room * each.value / largest, 1.5 if each.value else 0)
        marks.append(
            f"<g><title>{escape(each.title)}</title>"
            f'<rect class="hit" x="0" y="{top - 2}" width="{WIDTH}" height="{_ROW}"/>'
            f'<text class="label" x="{_LABEL_WIDTH - 10}" y="{top + 11}" text-anchor="end">'
            f"{escape(_short(each.label))}</text>"
            f'<path class="bar" d="{_bar_path(_LABEL_WIDTH, top, width)}"/>'
            f'<text class="value" x="{_number(_LABEL_WIDTH + width + 8)}" y="{top + 11}">{escape(each.shown)}'
            "</text></g>"
        )
    return _svg(title, height, marks)


def parts(title: str, rows: Sequence[tuple[str, Sequence[Part], str]]) -> str:
    """Draws bars of equal length, each divided into parts. A row is its label, its parts and a text at its end."""
    room = WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
    marks = []
    for number, (label, row, shown) in enumerate(rows):
        top, at = number * 34 + 4, float(_LABEL_WIDTH)
        total = sum(each.value for each in row) or 1.0
        marks.append(
            f'<text class="label" x="{_LABEL_WIDTH - 10}" y="{top + 15}" text-anchor="end">'
            f"{escape(_short(label))}</text>"
        )
        for each in row:
            width = room * each.value / total
            if width > 0:
                marks.append(
                    f"<g><title>{escape(each.title)}</title>"
                    f'<rect class="{each.style}" x="{_number(at)}" y="{top}" width="{_number(max(width - 2, 1))}" '
                    'height="22" rx="2"/></g>'
                )
            at += width
        marks.append(f'<text class="value" x="{_LABEL_WIDTH + room + 8}" y="{top + 15}">{escape(shown)}</text>')
    return _svg(title, len(rows) * 34, marks)


def columns(title: str, rows: Sequence[Bar]) -> str:
    """Draws a histogram: neighbouring columns, with a label below each that has room."""
    if not rows:
        return _svg(title, 20, ['<text class="label" x="0" y="14">nothing to show</text>'])
    largest = max(each.value for each in rows) or 1.0
    left, top = 4, 16
    step = (WIDTH - 2 * left) / max(len(rows), 8)
    every = -(-len(rows) * 58 // (WIDTH - 2 * left))
    base = top + _COLUMNS_HEIGHT
    marks = [f'<line class="axis" x1="0" x2="{WIDTH}" y1="{base + 0.5}" y2="{base + 0.5}"/>']
    for number, each in enumerate(rows):
        x, height = left + number * step, max(_COLUMNS_HEIGHT * each.value / largest, 1.5 if each.value else 0)
        middle = _number(x + step / 2)
        radius = min(3.0, height, step / 2 - 1)
        content = (
            f'<rect class="hit" x="{_number(x)}" y="0" width="{_number(step)}" height="{base}"/>'
            f'<path class="bar" d="{_column_path(x + 1, base, step - 2, height, radius)}"/>'
        )
        if each.value == largest:
            content += (
                f'<text class="value" x="{middle}" y="{top - 5}" text-anchor="middle">{escape(each.shown)}</text>'
            )
        marks.append(f"<g><title>{escape(each.title)}</title>{content}</g>")
        if number % every == 0:
            marks.append(
                f'<text class="tick" x="{middle}" y="{base + 16}" text-anchor="middle">{escape(each.label)}</text>'
            )
    return _svg(title, base + 22, marks)


def heat_map(
    title: str,
    rows: Sequence[tuple[str, Sequence[tuple[float, str]]]],
    ticks: Sequence[str],
    most: str,
) -> str:
    """Draws a cell for each row and time, the darker the larger its value is.

    A row is its label and the values with their titles. `ticks` are the first, middle and last time, and `most` says
    what the darkest shade stands for.
    """
    count = max((len(cells) for _, cells in rows), default=0)
    largest = max((value for _, cells in rows for value, _ in cells), default=0.0)
    left = _LABEL_WIDTH
    step = (WIDTH - left) / max(count, 1)
    marks = []
    for number, (label, cells) in enumerate(rows):
        top = number * 18
        marks.append(
            f'<text class="label" x="{left - 10}" y="{top + 13}" text-anchor="end">{escape(_short(label))}</text>'
        )
        for place, (value, words) in enumerate(cells):
            shade = 0 if not value else 1 + min(int((HEAT_STEPS - 1) * value / largest), HEAT_STEPS - 2)
            marks.append(
                f'<rect class="heat{shade}" x="{_number(left + place * step)}" y="{top}" '
                f'width="{_number(max(step - 1, 0.5))}" height="17"><title>{escape(words)}</title></rect>'
            )
    base = len(rows) * 18
    anchors = ("start", "middle", "end")
    for place, (text, anchor) in enumerate(zip(ticks, anchors, strict=False)):
        x = left + (WIDTH - left) * place / 2
        marks.append(
            f'<text class="tick" x="{_number(x)}" y="{base + 16}" text-anchor="{anchor}">{escape(text)}</text>'
        )
    legend = base + 30
    marks.append(f'<text class="tick" x="{left}" y="{legend + 9}">0</text>')
    for shade in range(HEAT_STEPS):
        marks.append(f'<rect class="heat{shade}" x="{left + 14 + shade * 16}" y="{legend}" width="15" height="10"/>')
    marks.append(f'<text class="tick" x="{left + 22 + HEAT_STEPS * 16}" y="{legend + 9}">{escape(most)}</text>')
    return _svg(title, legend + 14, marks)


def _svg(title: str, height: float, marks: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {_number(height)}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title>{"".join(marks)}</svg>'
    )


def _bar_path(x: float, y: float, width: float) -> str:
    """Returns the outline of a bar that is round at its end only."""
    radius = min(3.0, width)
    return (
        f"M{_number(x)} {_number(y)}h{_number(width - radius)}q{_number(radius)} 0 {_number(radius)} {_number(radius)}"
        f"v{_number(_BAR - 2 * radius)}q0 {_number(radius)} {_number(-radius)} {_number(radius)}"
        f"h{_number(radius - width)}z"
    )


def _column_path(x: float, base: float, width: float, height: float, radius: float) -> str:
    """Returns the outline of a column that is round at its top only."""
    r = _number(radius)
    return (
        f"M{_number(x)} {_number(base)}v{_number(radius - height)}q0 -{r} {r} -{r}h{_number(width - 2 * radius)}"
        f"q{r} 0 {r} {r}v{_number(height - radius)}z"
    )


def _short(label: str) -> str:
    return label if len(label) <= _LABEL_CHARACTERS_MAX else label[: _LABEL_CHARACTERS_MAX - 1] + "…"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
