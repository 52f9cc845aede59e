from collections import Counter
from typing import Any

import pytest
from msgspec import Struct, field
from scrapes import Sample, sample, samples
from spus import batch, running_spu
from trio.testing import wait_all_tasks_blocked

from tailrace.broker.groups.common.group import GroupKind
from tailrace.broker.groups.common.group_counts import GroupCounts
from tailrace.broker.groups.common.group_lag import GroupLag
from tailrace.broker.groups.hosting import group_metrics
from tailrace.broker.groups.hosting.group_metrics import GroupGauges, gauge_groups, group_families, group_series
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.server.metric_text import render


def _scraped(counts: GroupCounts, gauges: GroupGauges) -> dict[Sample, float]:
    text = render(lambda: group_families(counts, gauges)).decode() + "".join(group_series(gauges))
    return samples(text)


def test_what_is_counted_of_groups_is_scraped() -> None:
    scraped = _scraped(GroupCounts(1, 2, 3, 4, 0.5), GroupGauges())
    assert scraped == {
        sample("tailrace_group_rebalances_total"): 1,
        sample("tailrace_committed_offsets_total"): 2,
        sample("tailrace_expired_offsets_total"): 3,
        sample("tailrace_group_loads_total"): 4,
        sample("tailrace_group_load_seconds_total"): 0.5,
        sample("tailrace_pending_offsets"): 0,
    }


def test_what_groups_are_is_scraped() -> None:
    states = Counter({(GroupKind.CONSUMER, "Stable"): 2, (GroupKind.CLASSIC, "Empty"): 1})
    scraped = _scraped(GroupCounts(), GroupGauges(states, [('a "b"', 3)]))
    assert scraped[sample("tailrace_groups", type="consumer", state="Stable")] == 2
    assert scraped[sample("tailrace_groups", type="classic", state="Empty")] == 1
    assert scraped[sample("tailrace_group_members", group='a "b"')] == 3


def test_offsets_of_open_transactions_are_counted() -> None:
    scraped = _scraped(GroupCounts(), GroupGauges(pending_offsets=4))
    assert scraped[sample("tailrace_pending_offsets")] == 4


def test_unknown_parts_of_a_lag_are_not_scraped() -> None:
    gauges = GroupGauges(
        group_lags=[
            GroupLag("g", "t", 4, 9, 2, 1.5),
            GroupLag("g", "t", 5, 9, 2, None),
            GroupLag("g", "t", 6, 9, None, None),
        ]
    )
    scraped = _scraped(GroupCounts(), gauges)
    here = [{"group": "g", "topic": "t", "partition": str(number)} for number in (4, 5, 6)]
    assert [scraped[sample("tailrace_group_committed_offset", **each)] for each in here] == [9, 9, 9]
    assert [scraped.get(sample("tailrace_group_lag_records", **each)) for each in here] == [2, 2, None]
    assert [scraped.get(sample("tailrace_group_lag_seconds", **each)) for each in here] == [1.5, None, None]


async def test_a_commit_shows_in_the_next_scrape(autojump_clock: object) -> None:
    async with running_spu(broker={"offsets.topic.num.partitions": "3"}) as running:
        await running.create("t")
        client = await running.client()
        data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch(b"a", b"b", b"c"))])]
        await client.request(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1000, topic_data=data))
        await client.request(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key="g"))
        await wait_all_tasks_blocked()
        partition = OffsetCommitRequestPartition(0, 1, committed_metadata="")
        request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=[partition])])
        response = await client.request(ApiKey.OFFSET_COMMIT, 9, request)
        assert response.topics[0].partitions[0].error_code == 0
        running.world.clock.time_ms += 2500
        text = await running.scraped()
        labels = '{group="g",partition="0",topic="t"}'
        for line in (
            'tailrace_groups{state="Empty",type="classic"} 1.0',
            'tailrace_group_members{group="g"} 0',
            f"tailrace_group_committed_offset{labels} 1",
            f"tailrace_group_lag_records{labels} 2",
            f"tailrace_group_lag_seconds{labels} 2.5",
            "tailrace_committed_offsets_total 1.0",
            "tailrace_group_loads_total 3.0",
        ):
            assert f"\n{line}\n" in text


class SomeGroup(Struct):
    group_id: str
    state: str
    members: list[str] = field(default_factory=list)
    kind: GroupKind = GroupKind.CLASSIC


def _gauged(*groups: Any) -> GroupGauges:
    return gauge_groups(groups, [], 0)


def test_groups_are_counted_by_kind_and_state() -> None:
    gauges = _gauged(
        SomeGroup("a", "Stable", ["m", "n"]),
        SomeGroup("b", "Stable", ["m"]),
        SomeGroup("c", "Empty"),
        SomeGroup("d", "Stable", ["m"], GroupKind.CONSUMER),
    )
    assert gauges.states == Counter(
        {(GroupKind.CLASSIC, "Stable"): 2, (GroupKind.CLASSIC, "Empty"): 1, (GroupKind.CONSUMER, "Stable"): 1}
    )
    assert dict(gauges.members) == {"a": 2, "b": 1, "c": 0, "d": 1}


def test_of_too_many_groups_the_largest_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_metrics, "GROUPS_MAX", 2)
    gauges = _gauged(*(SomeGroup(str(size), "Stable", ["m"] * size) for size in (1, 3, 2)))
    assert gauges.members == [("3", 3), ("2", 2)]
    assert gauges.states.total() == 3
