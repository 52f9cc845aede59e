"""Tests the sums of what tasks report, and the result that a person sees."""

import msgspec

from tailrace.pipeline.engine.engine_results import EngineCounts, RangeResult, engine_result, range_result
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.work import Shard

SHARD = Shard("orders", 0)


def _metrics(events: int) -> ReplicaMetrics:
    metrics = ReplicaMetrics()
    metrics.events = events
    metrics.failures["raised"] = 2
    metrics.dead_letters = 1
    metrics.lost_transactions = 1
    metrics.handler_seconds.observe(0.003, events)
    return metrics


def test_sums_of_tasks_are_the_metrics_of_the_run() -> None:
    counts = EngineCounts()
    counts.add([range_result(SHARD, 0, 10, _metrics(10)), range_result(Shard("orders", 1), 0, 4, _metrics(4))])
    counts.add([range_result(SHARD, 10, 15, _metrics(5))])
    assert (counts.metrics.events, counts.metrics.failures["raised"], counts.metrics.dead_letters) == (19, 6, 3)
    assert counts.metrics.lost_transactions == 3
    assert sum(counts.metrics.handler_seconds.counts) == 19
    assert counts.marks == {SHARD: 15, Shard("orders", 1): 4}


def test_a_result_survives_its_encoding() -> None:
    result = range_result(SHARD, 3, 9, _metrics(6), "stopped at offset 9", "the transaction is lost")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(result), type=RangeResult) == result


def test_a_run_without_problems_says_what_it_did() -> None:
    counts = EngineCounts()
    counts.add([range_result(SHARD, 0, 10, _metrics(10))])
    result = engine_result("trigger", counts, "done", {"micro-batches": 1})
    assert (result.status, result.verdict, result.positions) == (0, "done", {"orders": {0: 10}})
    assert result.facts["events"] == 10
    assert result.facts["position of orders/0"] == 10


def test_a_problem_of_a_shard_is_the_verdict() -> None:
    counts = EngineCounts()
    counts.add([range_result(Shard("orders", number), 0, 1, _metrics(1), "stopped at offset 1") for number in range(2)])
    result = engine_result("trigger", counts, "done", {})
    assert (result.status, result.verdict) == (1, "shard orders/0: stopped at offset 1, and 1 more")


def test_a_failure_of_the_run_is_the_verdict() -> None:
    result = engine_result("trigger", EngineCounts(), "done", {}, "the lease is lost")
    assert (result.status, result.verdict) == (1, "the lease is lost")
