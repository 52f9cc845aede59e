"""The latest reports of the replicas of triggers, in the memory of the active SC."""

from collections.abc import Mapping
from typing import NamedTuple

from tailrace.cluster.stream_state.replica_report import CURRENT_SECONDS, ReplicaReport

REPORT_CHARACTERS_MAX = 256 * 1024
TOTAL_CHARACTERS_MAX = 16 * 1024 * 1024
"""How much all reports may take together. The oldest reports are dropped first."""


class Reported(NamedTuple):
    """What a replica has reported, and when."""

    report: ReplicaReport
    characters: int
    """The length of the report as JSON."""
    at: float


class TriggerReports:
    def __init__(self) -> None:
        self._reports: dict[tuple[str, str], Reported] = {}
        """By trigger and replica, in the order in which they were reported."""
        self._characters = 0

    def note(self, trigger: str, replica: str, reported: Reported) -> None:
        """Replaces the report of a replica."""
        self.drop(trigger, replica)
        self._reports[trigger, replica] = reported
        self._characters += reported.characters
        while self._characters > TOTAL_CHARACTERS_MAX:
            self.drop(*next(iter(self._reports)))

    @property
    def triggers(self) -> frozenset[str]:
        """The names of all triggers that have reports."""
        return frozenset(trigger for trigger, _ in self._reports)

    def reports_of(self, trigger: str) -> Mapping[str, Reported]:
        """Returns the reports of a trigger by replica, however old they are."""
        return {replica: report for (name, replica), report in self._reports.items() if name == trigger}

    def current(self, trigger: str, now: float) -> Mapping[str, ReplicaReport]:
        """Returns the reports of a trigger by replica that say what the replicas do now."""
        return {
            replica: each.report
            for replica, each in self.reports_of(trigger).items()
            if now - each.at <= CURRENT_SECONDS
        }

    def forget(self, trigger: str) -> None:
        """Drops the reports of a trigger, which was deleted."""
        for key in [key for key in self._reports if key[0] == trigger]:
            self.drop(*key)

    def drop(self, trigger: str, replica: str) -> None:
        """Drops the report of a replica that should not run any more, if there is one."""
        dropped = self._reports.pop((trigger, replica), None)
        if dropped is not None:
            self._characters -= dropped.characters
