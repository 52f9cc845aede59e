"""The latest reports of the replicas of triggers, in the memory of the active SC."""

from collections.abc import Mapping
from typing import NamedTuple

REPORT_CHARACTERS_MAX = 256 * 1024
TOTAL_CHARACTERS_MAX = 32 * 1024 * 1024
"""How much all reports may take together. The oldest reports are dropped first."""


class Reported(NamedTuple):
    """What a replica has reported, and when."""

    document: str
    """The report as JSON."""
    at: float


class TriggerReports:
    def __init__(self) -> None:
        self._reports: dict[tuple[str, str], Reported] = {}
        """By trigger and replica, in the order in which they were reported."""
        self._characters = 0

    def note(self, trigger: str, replica: str, document: str, now: float) -> None:
        """Replaces the report of a replica."""
        self._drop((trigger, replica))
        self._reports[trigger, replica] = Reported(document, now)
        self._characters += len(document)
        while self._characters > TOTAL_CHARACTERS_MAX:
            self._drop(next(iter(self._reports)))

    def reports_of(self, trigger: str) -> Mapping[str, Reported]:
        """Returns the reports of a trigger by replica."""
        return {replica: report for (name, replica), report in self._reports.items() if name == trigger}

    def forget(self, trigger: str) -> None:
        """Drops the reports of a trigger, which was deleted."""
        for key in [key for key in self._reports if key[0] == trigger]:
            self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        dropped = self._reports.pop(key, None)
        if dropped is not None:
            self._characters -= len(dropped.document)
