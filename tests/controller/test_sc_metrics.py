from controller_model import model, topic
from msgspec.structs import replace

from tailrace.controller.sc_metrics import ScGauges, ScMetrics, gauges_of, render
from tailrace.controller.workflow.workflow import WorkflowCounts
from tailrace.protocol.apis import API_TABLE
from tailrace.protocol.ids import SpuId


def test_a_scrape_shows_what_was_counted() -> None:
    metrics = ScMetrics(API_TABLE)
    metrics.cm_rejected = 3
    metrics.server.received_bytes = 5
    workflow = WorkflowCounts()
    workflow.reader.refused_objects = 4
    workflow.updaters.lost_writes = 6
    text = render(metrics, workflow, ScGauges(True, 2, {"Online": 7, "Offline": 1}, 3)).decode()
    assert "\ntailrace_cm_rejected_total 3.0\n" in text
    assert "\ntailrace_received_bytes_total 5.0\n" in text
    assert "\ntailrace_refused_objects_total 4.0\n" in text
    assert "\ntailrace_lost_writes_total 6.0\n" in text
    assert "\ntailrace_connected_spus 2.0\n" in text
    assert "\ntailrace_leading 1.0\n" in text
    assert '\ntailrace_partitions{status="Offline"} 1.0\n' in text
    assert "\ntailrace_moving_partitions 3.0\n" in text


def test_partitions_are_counted_by_status() -> None:
    sc = model(1, 2)
    sc.write(topic("t", 3, 2, {0: (1, 2), 1: (2, 1), 2: (1, 2)}))
    sc.settle()
    found = sc.topic("t")
    rows = {**found.status.replica_map, 0: (SpuId(1),)}
    sc.mute_elected = {1}
    sc.stop_spu(2)
    sc.write(replace(found, status=replace(found.status, replica_map=rows)))
    sc.settle()
    assert gauges_of(sc.brain.store, 5) == ScGauges(
        True, 5, {"Online": 1, "Offline": 0, "Election": 0, "CandidateFound": 2}, 0
    )
    assert ScGauges().partitions == {}
