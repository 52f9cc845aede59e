from collections import Counter

from scrapes import Sample, sample, samples
from spus import batch, running_spu
from trio.testing import wait_all_tasks_blocked

from tailrace.broker.groups.common.group import GroupKind
from tailrace.broker.groups.common.group_counts import GroupCounts
from tailrace.broker.groups.common.group_lag import GroupLag
from tailrace.broker.groups.hosting.group_gauges import GroupGauges
from tailrace.broker.groups.hosting.group_metrics import group_families, group_series
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
    }


def test_what_groups_are_is_scraped() -> None:
    states = Counter({(GroupKind.CONSUMER, "Stable"): 2, (GroupKind.CLASSIC, "Empty"): 1})
    scraped = _scraped(GroupCounts(), GroupGauges(states, [('a "b"', 3)]))
    assert scraped[sample("tailrace_groups", type="consumer", state="Stable")] == 2
    assert scraped[sample("tailrace_groups", type="classic", state="Empty")] == 1
    assert scraped[sample("tailrace_group_members", group='a "b"')] == 3


def test_what_is_not_known_of_a_lag_is_not_told() -> None:
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
