from uuid import UUID

import object_samples
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from security_samples import ALICE, RECORDS

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import Endpoint, PartitionSpec, Shelf, SpuSpec, TopicSpec
from tailrace.controller.connections.spu_messages import changed_metadata, specs_request, whole_metadata
from tailrace.controller.objects.objects import DeletedTopic, Partition, Spu, Topic
from tailrace.controller.objects.objects import PartitionSpec as StoredPartitionSpec
from tailrace.controller.objects.objects import SpuSpec as StoredSpec
from tailrace.controller.objects.objects import TopicSpec as StoredTopicSpec
from tailrace.controller.state.events import Stored
from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.codec.compile import decode, encode
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.internal.apply_specs import ApplySpecsRequest
from tailrace.security.records.security_records import encode_record, key_of, kind_of

ONE, TWO = SpuId(1), SpuId(2)
ORDERS, BILLS = UUID(int=1), UUID(int=2)


def _cluster() -> Cluster:
    cluster = Cluster()
    cluster.identify("c", TWO)
    cluster.put_spu(
        SpuSpec(ONE, "a", (Endpoint("PUBLIC", "one", 9005), Endpoint("PUBLIC_1", "uno", 9092)), online=False)
    )
    cluster.put_spu(SpuSpec(TWO))
    for topic_id, name in ((ORDERS, "orders"), (BILLS, "__bills")):
        row = PartitionSpec(topic_id, name, 0, ONE, Epoch(5), (ONE, TWO), (ONE,))
        cluster.put_topic(TopicSpec(topic_id, name, {"retention.ms": "1"}, (row,), internal=name.startswith("__")))
    cluster.put_group_configs("g", {"consumer.session.timeout.ms": "50000"})
    return cluster


def test_the_whole_of_a_cluster() -> None:
    cluster = _cluster()
    whole = whole_metadata(cluster, LocalStore())
    assert (whole.is_full, whole.version, whole.cluster_id, whole.controller_id) == (True, cluster.version, "c", 2)
    assert [(spu.id, spu.rack, spu.is_online) for spu in whole.spus] == [(1, "a", False), (2, None, True)]
    assert [(each.name, each.host, each.port) for each in whole.spus[0].endpoints] == [
        ("PUBLIC", "one", 9005),
        ("PUBLIC_1", "uno", 9092),
    ]
    assert [(topic.name, topic.is_internal) for topic in whole.topics] == [("orders", False), ("__bills", True)]
    ((group, (config,)),) = [(each.group, each.configs) for each in whole.groups]
    assert (group, config.name, config.value) == ("g", "consumer.session.timeout.ms", "50000")
    (row,) = whole.topics[0].partitions
    assert (row.partition, row.leader, row.epoch, row.replicas, row.live_replicas) == (0, 1, 5, [1, 2], [1])


def test_deleted_topics_are_not_sent_as_hidden() -> None:
    store = LocalStore()
    hidden, damaged, deleted = (UUID(int=number) for number in (3, 4, 5))
    row = StoredPartitionSpec(ONE, (ONE,))
    for version, found in enumerate(
        (
            Topic("hidden", hidden, StoredTopicSpec()),
            Partition("damaged", damaged, 0, row),
            Partition("deleted", deleted, 0, row),
            DeletedTopic(Topic("deleted", deleted, StoredTopicSpec()), 0),
        ),
        1,
    ):
        store.apply(Stored(replace(found, version=version)))
    assert whole_metadata(_cluster(), store).hidden_topics == [hidden]
    assert whole_metadata(_cluster(), store, unreadable=["topic/x"]).hidden_topics == [hidden, damaged]


def test_possible_changes_are_sent_in_their_current_state() -> None:
    cluster = _cluster()
    cluster.remove_topic(BILLS)
    cluster.remove_spu(ONE)
    cluster.put_group_configs("h", {"consumer.session.timeout.ms": "50000"})
    cluster.put_group_configs("g", {})
    changed = changed_metadata(cluster, [ONE, TWO], {ORDERS: None, BILLS: None}, ["g", "h"])
    assert not changed.is_full
    assert [spu.id for spu in changed.spus] == [2]
    assert changed.removed_spus == [1]
    assert [topic.name for topic in changed.topics] == ["orders"]
    assert changed.removed_topics == [BILLS]
    assert [(each.group, len(each.configs)) for each in changed.groups] == [("g", 0), ("h", 1)]


def test_only_changed_partitions_of_a_topic_are_sent() -> None:
    cluster = _cluster()
    before = cluster.topics["orders"]
    rows = tuple(replace(before.partitions[0], partition=number) for number in range(3))
    cluster.put_topic(replace(before, partitions=rows))
    (some,) = changed_metadata(cluster, [], {ORDERS: {2, 0}}).topics
    assert ([each.partition for each in some.partitions], some.is_whole) == ([0, 2], False)
    (whole,) = changed_metadata(cluster, [], {ORDERS: None}).topics
    assert (len(whole.partitions), whole.is_whole) == (3, True)


def test_an_spu_without_anything() -> None:
    request = specs_request(Spu(StoredSpec(ONE)), LocalStore(), [], [(ORDERS, 3)], is_full=False)
    assert (request.size_bytes, request.default_configs, request.own_configs, request.topics) == (-1, [], [], [])
    assert [(removed.topic_id, removed.partition) for removed in request.removed] == [(ORDERS, 3)]


@given(object_samples.spus, st.lists(object_samples.partitions, unique_by=lambda each: (each.topic_id, each.number)))
def test_every_partition_travels_once_under_its_topic(spu: Spu, partitions: list[Partition]) -> None:
    request = specs_request(spu, LocalStore(), partitions, [], is_full=True)
    data = b"".join(encode(request, 0))  # type: ignore[arg-type]
    assert decode(ApplySpecsRequest, 0, data) == request
    named = [(topic.topic_id, row.partition) for topic in request.topics for row in topic.partitions]
    assert sorted(named) == sorted((each.topic_id, each.number) for each in partitions)
    sets = {
        (topic.topic_id, row.partition): tuple(tuple(each.spu_ids) for each in row.copy_sets)
        for topic in request.topics
        for row in topic.partitions
    }
    assert sets == {(each.topic_id, each.number): each.spec.copy_sets for each in partitions}
    shelves = {
        (topic.topic_id, row.partition): (
            row.shelved_from,
            tuple(Shelf(each.base, each.end, tuple(each.stores), tuple(each.filling)) for each in row.shelves),
        )
        for topic in request.topics
        for row in topic.partitions
    }
    assert shelves == {(each.topic_id, each.number): (each.spec.shelved_from, each.spec.shelves) for each in partitions}
    assert len({topic.topic_id for topic in request.topics}) == len(request.topics)


def test_security_is_sent_as_a_whole_and_in_changes() -> None:
    cluster = _cluster()
    for record in RECORDS:
        cluster.put_security(record)
    whole = whole_metadata(cluster, LocalStore(), unreadable=["security/acl/abc", "security/other/x", "topic/security"])
    sent = [(each.kind, each.key, each.value) for each in whole.security]
    assert sent[:-1] == [(kind_of(record), key_of(record), encode_record(record)) for record in RECORDS]
    assert sent[-1] == ("acl", "abc", None), "an SPU keeps what it has of a record that cannot be read"
    changed = changed_metadata(cluster, [], {}, [], [("user", "alice"), ("user", "gone")])
    assert [(each.kind, each.key, each.value) for each in changed.security] == [
        ("user", "alice", encode_record(ALICE)),
        ("user", "gone", None),
    ]
