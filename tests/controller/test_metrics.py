from tailrace.controller.metrics import ScMetrics, render
from tailrace.protocol.apis import API_TABLE


def test_a_scrape_shows_what_was_counted() -> None:
    metrics = ScMetrics(API_TABLE)
    metrics.cm_rejected = 3
    metrics.server.received_bytes = 5
    text = render(metrics, connected_spus=2).decode()
    assert "\ntailrace_cm_rejected_total 3.0\n" in text
    assert "\ntailrace_received_bytes_total 5.0\n" in text
    assert "\ntailrace_connected_spus 2.0\n" in text
