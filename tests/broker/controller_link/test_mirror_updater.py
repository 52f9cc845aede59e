import pytest
import trio
from security_samples import READ_ORDERS, RECORDS

from tailrace.broker.controller_link.mirror_updater import MirrorUpdater
from tailrace.cluster.advertised_addresses import PUBLISHED
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import Endpoint
from tailrace.protocol.error_codes import ErrorCode, RemoteProtocolError
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.protocol.internal.apply_metadata import (
    ApplyMetadataRequest,
    Config,
    GroupState,
    PartitionState,
    SecurityState,
    SpuState,
    TopicState,
    WaitingTopic,
)
from tailrace.protocol.internal.apply_metadata import Endpoint as StatedEndpoint
from tailrace.security.records.security_records import SecurityRecord, encode_record, key_of, kind_of

A, B, C = TopicId(int=7), TopicId(int=8), TopicId(int=9)


def _topic(topic_id: TopicId, name: str, partitions: int = 1) -> TopicState:
    return TopicState(
        topic_id, name, partitions=[PartitionState(number, 1, 0, [1], [1]) for number in range(partitions)]
    )


def _full(version: int, *topics: TopicState, spus: tuple[int, ...] = (1,)) -> ApplyMetadataRequest:
    states = [SpuState(spu, None, True) for spu in spus]
    return ApplyMetadataRequest(True, version, "cluster", 1, states, topics=list(topics))


def _updated(*messages: ApplyMetadataRequest) -> tuple[Cluster, MirrorUpdater]:
    cluster = Cluster()
    mirror = MirrorUpdater(cluster, SpuId(1))
    for message in messages:
        mirror.apply(message)
    return cluster, mirror


def test_everything_at_once() -> None:
    cluster, _ = _updated(_full(1, _topic(A, "a"), _topic(B, "b", 2), spus=(1, 2)))
    assert (cluster.cluster_id, cluster.controller_id) == ("cluster", 1)
    assert sorted(cluster.spus) == [1, 2]
    assert {name: len(topic.partitions) for name, topic in cluster.topics.items()} == {"a": 1, "b": 2}


def test_changes_leave_the_rest_as_it_was() -> None:
    changes = ApplyMetadataRequest(
        False, 2, "cluster", 2, [SpuState(2)], removed_spus=[3], topics=[_topic(A, "a", 3)], removed_topics=[B]
    )
    cluster, _ = _updated(_full(1, _topic(A, "a"), _topic(B, "b"), spus=(1, 2, 3)), changes)
    assert {spu: spec.online for spu, spec in cluster.spus.items()} == {1: True, 2: False}
    assert {name: len(topic.partitions) for name, topic in cluster.topics.items()} == {"a": 3}
    assert cluster.controller_id == 2


def test_topics_that_wait_are_replaced_by_each_message() -> None:
    waiting = [WaitingTopic(C, "c", ErrorCode.INVALID_REPLICATION_FACTOR)]
    first = _full(1, _topic(A, "a"))
    first.waiting_topics = waiting
    cluster, mirror = _updated(first)
    assert {name: each.error for name, each in cluster.waiting_topics.items()} == {
        "c": ErrorCode.INVALID_REPLICATION_FACTOR
    }
    mirror.apply(ApplyMetadataRequest(False, 2, "cluster", 1, topics=[_topic(C, "c")]))
    assert (sorted(cluster.topics), dict(cluster.waiting_topics)) == (["a", "c"], {})


def test_what_is_not_in_the_full_metadata_is_removed_also_if_a_name_was_reused() -> None:
    cluster, _ = _updated(_full(1, _topic(A, "a"), _topic(B, "b"), spus=(1, 2)), _full(2, _topic(C, "a"), spus=(2,)))
    assert list(cluster.spus) == [2]
    assert {name: topic.id for name, topic in cluster.topics.items()} == {"a": C}
    assert cluster.topic_by_id(A) is None


def test_hidden_topics_stay_unchanged() -> None:
    full = _full(2, _topic(B, "b"))
    full.hidden_topics = [A, C]
    cluster, mirror = _updated(_full(1, _topic(A, "a", 2), _topic(B, "b")), full)
    assert {name: len(topic.partitions) for name, topic in cluster.topics.items()} == {"a": 2, "b": 1}
    assert [cluster.may_lack(name) for name in "abc"] == [True, False, True]
    mirror.apply(ApplyMetadataRequest(False, 3, "cluster", 1, topics=[_topic(A, "a", 3)], removed_topics=[C]))
    assert [cluster.may_lack(name) for name in "abc"] == [False, False, False]
    mirror.apply(full)
    mirror.apply(_full(4, _topic(A, "a"), _topic(B, "b")))
    assert [cluster.may_lack(name) for name in "abc"] == [False, False, False]


def test_a_topic_that_was_made_again_in_one_step_is_the_new_one() -> None:
    changes = ApplyMetadataRequest(False, 2, "cluster", 1, topics=[_topic(B, "a")], removed_topics=[A])
    cluster, _ = _updated(_full(1, _topic(A, "a")), changes)
    assert cluster.topics["a"].id == B


def test_what_groups_set_themselves_comes_and_goes() -> None:
    def full(*groups: str) -> ApplyMetadataRequest:
        return ApplyMetadataRequest(True, 1, groups=[GroupState(group, [Config("a", "b")]) for group in groups])

    cluster, mirror = _updated(full("g", "h"))
    assert cluster.group_configs == {"g": {"a": "b"}, "h": {"a": "b"}}
    mirror.apply(ApplyMetadataRequest(False, 2, groups=[GroupState("g", [])]))
    assert cluster.group_configs == {"h": {"a": "b"}}
    mirror.apply(full("i"))
    assert cluster.group_configs == {"i": {"a": "b"}}


async def test_a_version_is_waited_for(autojump_clock: object) -> None:
    _, mirror = _updated(_full(5))
    await mirror.wait_for_version(5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mirror.wait_for_version, 7)
        for version in (6, 7):
            await trio.testing.wait_all_tasks_blocked()
            assert len(nursery.child_tasks) == 1, f"version {version} has not come yet"
            mirror.apply(ApplyMetadataRequest(False, version))


async def test_another_controller_counts_anew_and_has_what_the_one_before_had_stored(autojump_clock: object) -> None:
    cluster, mirror = _updated(_full(500, _topic(A, "a")))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mirror.wait_for_version, 501)
        await trio.testing.wait_all_tasks_blocked()
        mirror.on_connected(())
        await trio.testing.wait_all_tasks_blocked()
        assert nursery.child_tasks
        mirror.apply(_full(3, _topic(A, "a"), _topic(B, "b")))
    assert "b" in cluster.topics
    with pytest.raises(trio.TooSlowError), trio.fail_after(1):
        await mirror.wait_for_version(501)


async def test_the_version_of_the_controller_before_says_nothing_of_what_this_one_has_done(
    autojump_clock: object,
) -> None:
    """The full metadata of the new connection may be older as well."""
    cluster, mirror = _updated(_full(500, _topic(A, "a")))
    mirror.on_connected(())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mirror.wait_for_version, 7)
        await trio.testing.wait_all_tasks_blocked()
        assert nursery.child_tasks
        mirror.apply(_full(3, _topic(A, "a")))
        await trio.testing.wait_all_tasks_blocked()
        assert nursery.child_tasks
        mirror.apply(ApplyMetadataRequest(False, 7, topics=[_topic(B, "b")]))
    assert "b" in cluster.topics


async def test_the_whole_again_on_the_same_connection_is_no_other_controller(autojump_clock: object) -> None:
    _, mirror = _updated(_full(5))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mirror.wait_for_version, 7)
        await trio.testing.wait_all_tasks_blocked()
        mirror.apply(_full(6))
        await trio.testing.wait_all_tasks_blocked()
        assert nursery.child_tasks
        mirror.apply(_full(7))


async def test_waiting_stops_at_the_end(autojump_clock: object) -> None:
    _, mirror = _updated(_full(5))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mirror.wait_for_version, 7)
        await trio.testing.wait_all_tasks_blocked()
        mirror.on_end()


async def test_what_is_to_be_true_of_the_mirror_is_waited_for(autojump_clock: object) -> None:
    cluster, mirror = _updated(_full(1))
    await mirror.wait_until(lambda: 1 in cluster.spus)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mirror.wait_until, lambda: 2 in cluster.spus)
        mirror.apply(ApplyMetadataRequest(False, 2, spus=[SpuState(3)]))
        await trio.testing.wait_all_tasks_blocked()
        assert nursery.child_tasks
        mirror.apply(ApplyMetadataRequest(False, 3, spus=[SpuState(2)]))
        await trio.testing.wait_all_tasks_blocked()
        assert not nursery.child_tasks
        nursery.start_soon(mirror.wait_until, lambda: False)
        mirror.on_end()


def test_of_itself_it_knows_better_unless_a_person_gave_it_an_address() -> None:
    cluster = Cluster()
    mirror = MirrorUpdater(cluster, SpuId(1))
    mirror.on_connected((Endpoint("PUBLIC", "10.0.0.1", 9005), Endpoint("PUBLIC_1", "10.0.0.1", 9092)))
    endpoints = [StatedEndpoint("PUBLIC", "spu.example", 9005), StatedEndpoint("PUBLIC_1", "10.0.0.1", 9092)]
    states = [SpuState(spu, None, True, endpoints) for spu in (1, 2)]
    mirror.apply(ApplyMetadataRequest(True, 1, spus=states))
    assert cluster.spus[SpuId(1)].endpoints == (Endpoint("PUBLIC", "spu.example", 9005),)
    assert len(cluster.spus[SpuId(2)].endpoints) == 2


def test_of_itself_it_keeps_the_published_address_and_knows_the_address_of_its_machine() -> None:
    cluster = Cluster()
    mirror = MirrorUpdater(cluster, SpuId(1))
    published = Endpoint(PUBLISHED, "host.example", 19092)
    mirror.on_connected((Endpoint("PUBLIC", "10.0.0.1", 9005, on_all_addresses=True), published))
    assert cluster.machine_hosts == {"10.0.0.1"}
    # An older SC does not tell which SPUs listen on all addresses.
    endpoints = [StatedEndpoint("PUBLIC", "10.0.0.1", 9005), StatedEndpoint(PUBLISHED, "host.example", 19092)]
    mirror.apply(ApplyMetadataRequest(True, 1, spus=[SpuState(1, None, True, endpoints)]))
    assert cluster.spus[SpuId(1)].endpoints == (published,)


def _state(record: SecurityRecord) -> SecurityState:
    return SecurityState(kind_of(record), key_of(record), encode_record(record))


def test_security_comes_and_goes_and_stays_while_no_metadata_come() -> None:
    cluster, mirror = _updated(ApplyMetadataRequest(True, 1, security=[_state(each) for each in RECORDS]))
    tables = cluster.security
    assert [tables.of_kind(kind_of(each)) for each in RECORDS] == [{key_of(each): each} for each in RECORDS]
    version = tables.version
    mirror.apply(ApplyMetadataRequest(True, 2, security=[_state(each) for each in RECORDS]))
    assert tables.version == version, "the same records change nothing"
    mirror.apply(ApplyMetadataRequest(False, 3, security=[SecurityState("user", "alice", None)]))
    assert (tables.users, len(tables.acls)) == ({}, 1)
    mirror.on_connected(())
    assert len(tables.acls) == 1
    mirror.apply(ApplyMetadataRequest(True, 1, security=[SecurityState("acl", key_of(READ_ORDERS), None)]))
    assert tables.acls == {key_of(READ_ORDERS): READ_ORDERS}, "the controller cannot read the rule"
    assert not tables.quotas
    mirror.apply(ApplyMetadataRequest(True, 2))
    assert not tables.acls


def test_a_record_that_cannot_be_read_ends_the_connection() -> None:
    with pytest.raises(RemoteProtocolError, match="a record that cannot be read"):
        _updated(ApplyMetadataRequest(True, 1, security=[SecurityState("user", "alice", b"{}")]))
    cluster, _ = _updated(ApplyMetadataRequest(True, 1, security=[SecurityState("of a later version", "a", b"{}")]))
    assert cluster.security.version == 0
