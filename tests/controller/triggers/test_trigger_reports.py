from tailrace.cluster.stream_state.replica_report import CURRENT_SECONDS, ReplicaReport
from tailrace.controller.triggers.trigger_reports import (
    REPORT_CHARACTERS_MAX,
    TOTAL_CHARACTERS_MAX,
    Reported,
    TriggerReports,
)

REPORT = ReplicaReport(topic="orders", group="billing", replica="replica1")


def test_the_newest_report_of_each_replica_is_kept() -> None:
    reports = TriggerReports()
    reports.note("bill", "replica1", Reported(REPORT, 2, 1.0))
    reports.note("bill", "replica2", Reported(REPORT, 2, 2.0))
    reports.note("bill", "replica1", Reported(REPORT, 3, 3.0))
    reports.note("ship", "replica1", Reported(REPORT, 2, 3.0))
    assert reports.reports_of("bill") == {"replica2": Reported(REPORT, 2, 2.0), "replica1": Reported(REPORT, 3, 3.0)}
    assert list(reports.current("bill", 2.5 + CURRENT_SECONDS)) == ["replica1"]
    reports.forget("bill")
    assert reports.reports_of("bill") == {}
    assert list(reports.reports_of("ship")) == ["replica1"]


def test_the_oldest_reports_are_dropped_if_all_take_too_much() -> None:
    reports = TriggerReports()
    fitting = TOTAL_CHARACTERS_MAX // REPORT_CHARACTERS_MAX
    for number in range(fitting + 2):
        reports.note("bill", f"replica{number}", Reported(REPORT, REPORT_CHARACTERS_MAX, number))
    assert len(reports.reports_of("bill")) == fitting
    assert min(each.at for each in reports.reports_of("bill").values()) == 2
