"""ElectLeaders: every named partition has a result; without names, those that needed an election."""

import pytest
from clusters import cluster_of
from simulation.client import WireClient
from spus import running_spu
from trio.testing import MockClock

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

PREFERRED, UNCLEAN = 0, 1
Outcomes = dict[tuple[str, int], int]


async def elect(
    client: WireClient, *named: TopicPartitions, kind: int = PREFERRED, version: int = 2, timeout_ms: int = 5000
) -> Outcomes:
    """Elects leaders of all partitions if none are named."""
    request = ElectLeadersRequest(kind, list(named) or None, timeout_ms)
    response: ElectLeadersResponse = await client.request(ApiKey.ELECT_LEADERS, version, request)
    assert response.error_code == ErrorCode.NONE
    return {
        (result.topic, each.partition_id): each.error_code
        for result in response.replica_election_results
        for each in result.partition_result
    }


@pytest.mark.parametrize("version", range(3))
async def test_every_named_partition_has_one_result(autojump_clock: MockClock, version: int) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        client = await running.client()
        named = (TopicPartitions("t", [1, 0, 1, 7]), TopicPartitions("u", [0]), TopicPartitions("t", [0]))
        assert await elect(client, *named, version=version) == {
            ("t", 1): ErrorCode.ELECTION_NOT_NEEDED,
            ("t", 0): ErrorCode.ELECTION_NOT_NEEDED,
            ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("u", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await elect(client, version=version) == {}, "of all, only those that needed it"


async def test_an_unknown_election_type_is_refused(autojump_clock: MockClock) -> None:
    async with running_spu() as running:
        request = ElectLeadersRequest(7, None, 1000)
        response = await (await running.client()).request(ApiKey.ELECT_LEADERS, 2, request)
        assert (response.error_code, response.replica_election_results) == (ErrorCode.INVALID_REQUEST, [])


async def test_an_unclean_election_gives_a_leader_to_a_partition_without_one(autojump_clock: MockClock) -> None:
    async with cluster_of(1, 2) as cluster:
        await cluster.create(1, "t", 1, 1)
        ((leader, epoch),) = (await cluster.leaders(1, "t")).values()
        other = 3 - leader
        client = await cluster.client_of(other)
        assert await elect(client, TopicPartitions("t", [0]), kind=UNCLEAN) == {("t", 0): ErrorCode.ELECTION_NOT_NEEDED}
        await cluster.stop_spu(leader)
        assert await elect(client, kind=UNCLEAN) == {("t", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
        assert await elect(client, kind=PREFERRED) == {("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
        assert epoch == 0
