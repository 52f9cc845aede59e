from tailrace.controller.metrics import ScMetrics, render
from tailrace.controller.workflow import WorkflowCounts
from tailrace.protocol.apis import API_TABLE


def test_a_scrape_shows_what_was_counted() -> None:
    metrics = ScMetrics(API_TABLE)
    metrics.cm_rejected = 3
    metrics.server.received_bytes = 5
    workflow = WorkflowCounts()
    workflow.reader.refused_objects = 4
    workflow.updaters.lost_writes = 6
    text = render(metrics, workflow, connected_spus=2, is_leading=True).decode()
    assert "\ntailrace_cm_rejected_total 3.0\n" in text
    assert "\ntailrace_received_bytes_total 5.0\n" in text
    assert "\ntailrace_refused_objects_total 4.0\n" in text
    assert "\ntailrace_lost_writes_total 6.0\n" in text
    assert "\ntailrace_connected_spus 2.0\n" in text
    assert "\ntailrace_leading 1.0\n" in text
