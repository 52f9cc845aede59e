"""The table of a benchmark: medians of both systems, their ratios, and which goals are reached. Markdown."""

import os
import platform
import statistics
from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import psutil
from goals import Of, Row

THEIRS, OURS = "Apache Kafka", "Tailrace"
MARK = "<!-- the table of the last run -->"
Figures = defaultdict[tuple[str, str], list[float]]
"""What was measured, by case and figure."""


def machine() -> str:
    memory = psutil.virtual_memory().total >> 30
    return f"{date.today()}, {os.cpu_count()} cores, {memory} GiB, {platform.system()} {platform.machine()}, " + (
        f"Python {platform.python_version()}"
    )


def table(figures: dict[str, Figures], rounds: int, rows: Sequence[Row]) -> list[str]:
    """Returns the rows as a Markdown table; the last column says which goal is reached."""
    lines = [
        f"{machine()}; medians of {rounds} rounds in turns.",
        "",
        f"| work | unit | {THEIRS} | {OURS} | ratio | must | aim | reached |",
        "|---|---|--:|--:|--:|--:|--:|---|",
    ]
    for row in rows:
        key = (row.case, row.figure)
        if not figures[OURS][key]:
            continue
        ours = statistics.median(figures[OURS][key])
        theirs = statistics.median(figures[THEIRS][key]) if figures[THEIRS][key] else None
        ratio = f"{ours / theirs:.2f}×" if theirs else "–"
        told = "–" if theirs is None else number(theirs)
        cells = [row.name, row.unit, told, number(ours), ratio, goal(row, row.must), goal(row, row.aim)]
        lines.append("| " + " | ".join([*cells, verdict(row, theirs, ours)]) + " |")
    return lines


def keep_table(document: Path, lines: list[str]) -> None:
    above, mark, _ = document.read_text().partition(MARK)
    if not mark:
        raise SystemExit(f"{document} has no line {MARK}")
    document.write_text("\n".join([above + MARK, "", *lines]) + "\n")


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def goal(row: Row, value: float | None) -> str:
    if value is None:
        return ""
    sign = "≥" if row.more_is_better else "≤"
    return f"{sign} {value:g}×" if row.goal is Of.RATIO else f"{sign} {value:,g} {row.unit}"


def verdict(row: Row, theirs: float | None, ours: float) -> str:
    if row.reaches(row.aim, theirs, ours):
        return "aim"
    must = row.reaches(row.must, theirs, ours)
    if must is None:
        return ""
    return "must" if must else "**no**"
