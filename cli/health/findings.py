"""Findings: what a check has found, how bad it is, and what a person can do about it."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct

from tailrace.cli.output.printing import plain
from tailrace.cli.output.terminal import toned_text
from tailrace.cli.output.tones import Tone

NAMES_SHOWN_MAX = 3

T = TypeVar("T")


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


TONES = {Level.OK: Tone.GOOD, Level.WARNING: Tone.WARNING, Level.PROBLEM: Tone.BAD}


class Finding(Struct, frozen=True):
    """The result of one check."""

    level: Level
    subject: str
    """What was checked, for example `SPU 1` or `clocks`."""
    text: str
    """One sentence that says what is so."""
    next_step: str = ""
    """One sentence that says what to do; empty if there is nothing to do."""


def worst_of(findings: Iterable[Finding]) -> Level:
    """Returns the worst level of the findings; OK if there are none."""
    order = list(Level)
    return max((each.level for each in findings), key=order.index, default=Level.OK)


def finding_text(finding: Finding, *, indent: str = "") -> str:
    """Formats a finding: the level, what was found, and the next step on a line of its own."""
    level = toned_text(f"{finding.level.value:8}", TONES[finding.level])
    lines = [f"{indent}{level} {plain(finding.text)}"]
    if finding.next_step:
        lines.append(f"{indent}{'':8} {plain(finding.next_step)}")
    return "\n".join(lines)


def finding_document(finding: Finding) -> dict[str, str]:
    """Returns a finding as a document for programs."""
    document = {"level": finding.level.value, "subject": finding.subject, "text": finding.text}
    return document | ({"nextStep": finding.next_step} if finding.next_step else {})


def listed(names: Sequence[object], most: int = NAMES_SHOWN_MAX) -> str:
    """Lists the first names, and says how many more there are."""
    shown = [str(each) for each in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join((", ".join(shown[:-1]), shown[-1])) if len(shown) > 1 else "".join(shown)


def capitalized(text: str) -> str:
    """Returns a text with a capital letter at its beginning, for the beginning of a sentence."""
    return text[:1].upper() + text[1:]
