"""Tests addresses for the client's listener, and what clients are told about offline replicas."""

import math

import pytest
from msgspec.structs import replace

from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.cluster.client_view import (
    brokers,
    controller_told,
    electable_told,
    in_sync_told,
    leader_error,
    leader_told,
    missing_topic_error,
    offline_replicas,
    online_spus,
    reachable_spus,
)
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import NO_LEADER, Endpoint, PartitionSpec, SpuSpec, WaitingTopic
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import NO_TOPIC_ID, Epoch, SpuId

ONE, TWO, THREE, AWAY = map(SpuId, (1, 2, 3, 4))


def cluster() -> Cluster:
    found = Cluster()
    found.put_spu(SpuSpec(TWO, "r2", (Endpoint("PUBLIC", "two", 9), Endpoint("INSIDE", "two.local", 8))))
    found.put_spu(SpuSpec(ONE, "r1", (Endpoint("PUBLIC", "one", 9),)))
    found.put_spu(SpuSpec(THREE, None, (Endpoint("PUBLIC", "three", 9),)))
    found.put_spu(SpuSpec(AWAY, None, (Endpoint("PUBLIC", "away", 9),), online=False))
    return found


def partition(leader: SpuId) -> PartitionSpec:
    return PartitionSpec(NO_TOPIC_ID, "t", 0, leader, Epoch(0), (ONE, AWAY, SpuId(9)), (ONE,))


def test_this_spu_is_where_the_client_reached_it_and_others_where_they_say() -> None:
    mirror = cluster()
    mirror.put_spu(SpuSpec(ONE, "r1"))
    seen = brokers(mirror, ONE, ConnectedListener("PUBLIC", ("10.0.0.1", 1234)))
    assert seen == [(1, "10.0.0.1", 1234, "r1"), (2, "two", 9, "r2"), (3, "three", 9, None)]


def test_this_spu_is_where_somebody_said_it_is() -> None:
    seen = brokers(cluster(), ONE, ConnectedListener("PUBLIC", ("10.0.0.1", 1234)))
    assert seen[0] == (1, "one", 9, "r1")


def test_who_is_no_spu_tells_of_the_spus_where_they_say() -> None:
    seen = brokers(cluster(), SpuId(-1), ConnectedListener("PUBLIC", ("controller", 9003)))
    assert seen == [(1, "one", 9, "r1"), (2, "two", 9, "r2"), (3, "three", 9, None)]


def test_who_was_lost_a_moment_ago_is_still_named_to_those_who_ask_for_it() -> None:
    mirror = cluster()
    mirror.lost_at = {AWAY: 10.0}
    listener = ConnectedListener("PUBLIC", ("one", 9))

    def named(lost_since: float) -> list[SpuId]:
        return [broker.id for broker in brokers(mirror, ONE, listener, lost_since=lost_since)]

    assert named(9.0) == [ONE, TWO, THREE, AWAY]
    assert named(10.5) == [ONE, TWO, THREE]
    assert [broker.id for broker in brokers(mirror, ONE, listener)] == [ONE, TWO, THREE]
    mirror.lost_at.clear()
    assert named(9.0) == [ONE, TWO, THREE]
    assert named(-math.inf) == [ONE, TWO, THREE, AWAY], "whenever it was lost, and if it never came"
    mirror.put_spu(SpuSpec(AWAY, None, online=False))
    assert named(-math.inf) == [ONE, TWO, THREE], "it has never been online, so its address is unknown"


INSIDE = ConnectedListener("INSIDE", ("one.local", 8), is_chosen=True)


def test_an_spu_without_the_chosen_listener_cannot_be_reached_by_its_clients() -> None:
    mirror = cluster()
    assert brokers(mirror, ONE, INSIDE) == [(1, "one.local", 8, "r1"), (2, "two.local", 8, "r2")]
    assert reachable_spus(mirror, ONE, INSIDE, online_spus(mirror)) == {ONE, TWO}


def test_clients_of_a_plain_listener_reach_every_spu() -> None:
    plain = ConnectedListener("INSIDE", ("one.local", 8))
    assert brokers(cluster(), ONE, plain)[-1] == (3, "three", 9, None)
    assert reachable_spus(cluster(), ONE, plain, online_spus(cluster())) == {ONE, TWO, THREE}


def test_admin_requests_go_to_a_broker_that_the_client_knows() -> None:
    mirror = cluster()
    mirror.identify("c", THREE)
    assert controller_told(mirror, brokers(mirror, ONE, ConnectedListener("PUBLIC", ("one", 9)))) == THREE
    assert controller_told(mirror, brokers(mirror, ONE, INSIDE)) == ONE
    assert controller_told(Cluster(), []) == -1


def test_replicas_on_spus_that_are_away_or_unknown_are_offline() -> None:
    assert offline_replicas(online_spus(cluster()), partition(ONE)) == [4, 9]


def test_a_partition_without_a_leader_says_so() -> None:
    online = online_spus(cluster())
    assert leader_error(online, online, partition(ONE)) == ErrorCode.NONE
    assert leader_error(online, online, partition(AWAY)) == ErrorCode.LEADER_NOT_AVAILABLE
    assert leader_error(online, online, partition(NO_LEADER)) == ErrorCode.LEADER_NOT_AVAILABLE


def test_a_leader_without_the_listener_of_the_client_is_an_error_of_its_own() -> None:
    online = online_spus(cluster())
    assert leader_error(online, online - {ONE}, partition(ONE)) == ErrorCode.LISTENER_NOT_FOUND


def test_a_topic_that_cannot_be_used_has_the_error_that_says_why() -> None:
    mirror = cluster()
    mirror.put_waiting_topics([WaitingTopic(NO_TOPIC_ID, "wide", ErrorCode.INVALID_REPLICATION_FACTOR)])
    expected = {
        "wide": ErrorCode.INVALID_REPLICATION_FACTOR,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert {name: missing_topic_error(mirror, name) for name in expected} == expected


def test_a_leader_that_the_client_cannot_reach_is_not_named() -> None:
    assert leader_told(online_spus(cluster()), partition(AWAY)) == NO_LEADER
    assert leader_told(online_spus(cluster()), partition(ONE)) == ONE


@pytest.mark.parametrize(
    ("live", "in_sync", "electable"),
    [
        ((ONE, TWO), [1, 2], []),
        ((ONE, AWAY, TWO), [1, 2], [4]),
        ((AWAY,), [4], []),
    ],
    ids=["all there", "one away", "none there"],
)
def test_live_replicas_that_are_away_may_be_elected_and_are_not_in_sync(
    live: tuple[SpuId, ...], in_sync: list[int], electable: list[int]
) -> None:
    online, told = online_spus(cluster()), replace(partition(ONE), live_replicas=live)
    assert (in_sync_told(online, told), electable_told(online, told)) == (in_sync, electable)
