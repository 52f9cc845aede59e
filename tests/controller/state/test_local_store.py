"""The Local Store: the copy of the KV store, and its indexes."""

from collections.abc import MutableMapping
from typing import Any, cast

import pytest
from controller_model import custom, group, topic, topic_id
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tailrace.cluster.specs import Shelf
from tailrace.controller.objects.objects import (
    ArchiveHead,
    ClusterIdentity,
    ConfigOverrides,
    DeletedTopic,
    GroupConfigs,
    Object,
    Partition,
    PartitionSpec,
    PartitionStatus,
    ProducerIdBlock,
    Spu,
    SpuSpec,
    SpuType,
    StreamAttribute,
    Topic,
    TopicResolution,
    TopicStatus,
)
from tailrace.controller.state.events import Removed, Stored
from tailrace.controller.state.local_store import Change, LocalStore
from tailrace.controller.state.object_codec import key_of
from tailrace.protocol.ids import SpuId

ONE, TWO, THREE = SpuId(1), SpuId(2), SpuId(3)


def partition(number: int, *replicas: int, leader: int = -1, topic_number: int = 1) -> Partition:
    row = tuple(map(SpuId, replicas))
    status = PartitionStatus(leader=SpuId(leader))
    return Partition(f"t{topic_number}", topic_id(topic_number), number, PartitionSpec(row[0], row), status)


def managed(spu: int, group_name: str) -> Spu:
    return Spu(SpuSpec(SpuId(spu), SpuType.MANAGED, group=group_name))


def store_of(*objects: Object) -> LocalStore:
    store = LocalStore()
    for version, each in enumerate(objects, 1):
        store.apply(Stored(replace(each, version=version)))
    return store


def test_an_object_is_known_by_all_its_names() -> None:
    objects: list[Object] = [
        custom(1),
        group("main", 1, 11),
        topic("t"),
        DeletedTopic(topic("gone", number=2), 5),
        ConfigOverrides("1", {"a": "b"}),
        ClusterIdentity("id"),
        ProducerIdBlock(7),
        GroupConfigs("g", {"c": "d"}),
        StreamAttribute("t", "g", "{}"),
        ArchiveHead("a", "{}"),
        partition(0, 1),
    ]
    store = store_of(*objects)
    assert list(store.objects) == [key_of(each) for each in objects]
    assert store.spus[ONE].version == 1
    assert store.spu_groups["main"].version == 2
    assert store.topics["t"] is store.topics_by_id[topic_id(1)]
    assert store.deleted_topics[topic_id(2)].deleted_at_ms == 5
    assert store.config_overrides["1"].configs == {"a": "b"}
    assert store.group_configs["g"].configs == {"c": "d"}
    assert store.stream_state_of("t")["g"].text == "{}"
    assert store.topics_with_stream_state == ("t",)
    assert store.archives["a"].text == "{}"
    assert store.identity == ClusterIdentity("id", 6)
    assert store.producer_ids == ProducerIdBlock(7, 7)
    for key in list(store.objects):
        assert store.apply(Removed(key, 99)) is not None
    assert not store.objects
    assert not store.spus
    assert not store.spu_groups
    assert not store.topics
    assert not store.topics_by_id
    assert not store.deleted_topics
    assert not store.config_overrides
    assert not store.group_configs
    assert not store.topics_with_stream_state
    assert store.identity is None
    assert store.producer_ids is None


def test_a_change_is_what_was_and_what_is() -> None:
    store = LocalStore()
    first, second = replace(custom(1), version=1), replace(custom(1, "rack-a"), version=4)
    assert store.apply(Stored(first)) == Change(None, first)
    assert store.apply(Stored(second)) == Change(first, second)
    assert store.apply(Removed("spu/1", 5)) == Change(second, None)


def test_older_versions_change_nothing() -> None:
    store = store_of(custom(2), custom(1))
    for event in (Stored(replace(custom(1, "old"), version=1)), Removed("spu/1", 1), Removed("spu/7", 9)):
        assert store.apply(event) is None
    assert store.apply(Stored(store.spus[ONE])) is None
    assert store.spus[ONE].spec.rack is None


def test_views_cannot_be_written() -> None:
    store = store_of(custom(1), managed(11, "main"), partition(0, 1))
    views = (store.spus, store.objects, store.partitions, store.held_by(ONE), store.spus_of("main"))
    for view in views:
        with pytest.raises(TypeError):
            cast("MutableMapping[Any, Any]", view)["key"] = "value"


def test_partitions_are_known_by_topic_and_replica() -> None:
    store = store_of(partition(0, 1, 2, leader=1), partition(1, 2, 3), partition(0, 3, topic_number=2))
    first, second = topic_id(1), topic_id(2)
    assert list(store.partitions_of(first)) == [0, 1]
    assert list(store.held_by(TWO)) == [(first, 0), (first, 1)]
    assert list(store.held_by(THREE)) == [(first, 1), (second, 0)]
    store.apply(Stored(replace(partition(0, 2, 3, leader=2), version=9)))
    assert list(store.held_by(ONE)) == []
    assert sorted(store.held_by(THREE)) == [(first, 0), (first, 1), (second, 0)]
    store.apply(Removed(f"partition/{second}/0", 10))
    assert store.topics_with_partitions == (first,)
    assert not store.partitions_of(second)


def shelved(number: int, *stores: int, filling: tuple[int, ...] = ()) -> Partition:
    """Returns a partition on SPU 1 whose shelf these SPUs store."""
    found = partition(number, 1)
    shelves = tuple(Shelf(5, 5, (SpuId(store),), tuple(map(SpuId, filling))) for store in stores)
    return replace(found, spec=replace(found.spec, shelves=shelves))


def test_partitions_are_indexed_by_the_stores_of_their_shelves() -> None:
    store = store_of(partition(0, 1), shelved(1, 2, 3), shelved(2, 3, filling=(1,)))
    first = topic_id(1)
    assert list(store.held_by(ONE)) == [(first, 0), (first, 1), (first, 2)]
    assert [list(store.shelved_on(spu)) for spu in (ONE, TWO, THREE)] == [
        [(first, 2)],
        [(first, 1)],
        [(first, 1), (first, 2)],
    ]
    store.apply(Stored(replace(partition(1, 1), version=9)))
    store.apply(Stored(replace(shelved(0, 2), version=10)))
    store.apply(Removed(f"partition/{first}/2", 11))
    assert [list(store.shelved_on(spu)) for spu in (ONE, TWO, THREE)] == [[], [(first, 0)], []]


def test_managed_spus_are_known_by_group() -> None:
    store = store_of(managed(11, "main"), managed(12, "main"), custom(1))
    assert list(store.spus_of("main")) == [11, 12]
    assert store.groups_with_spus == ("main",)
    for version, spu in ((7, 11), (8, 12)):
        store.apply(Removed(f"spu/{spu}", version))
    assert store.groups_with_spus == ()
    assert not store.spus_of("main")


def test_topics_are_unfinished_until_they_have_all_their_rows() -> None:
    store = LocalStore()
    rows = {0: (ONE,)}
    for version, (status, is_unfinished) in enumerate(
        [
            (TopicStatus(), True),
            (TopicStatus(TopicResolution.PENDING), True),
            (TopicStatus(TopicResolution.PROVISIONED, rows), False),
        ],
        1,
    ):
        store.apply(Stored(replace(topic("t"), status=status, version=version)))
        assert ("t" in store.unfinished_topics) is is_unfinished
    store.apply(Stored(replace(topic("t", 2), status=TopicStatus(TopicResolution.PROVISIONED, rows), version=8)))
    assert list(store.unfinished_topics) == ["t"]


def test_a_topic_of_the_same_name_is_another_one() -> None:
    store = store_of(topic("t"), topic("t", number=2))
    assert list(store.topics_by_id) == [topic_id(2)]
    assert store.topics["t"].id == topic_id(2)


def _objects() -> st.SearchStrategy[Object]:
    ids = st.integers(1, 3)
    rows = st.lists(ids, min_size=1, max_size=3, unique=True)
    return st.one_of(
        st.builds(
            lambda number, row, led: partition(number, *row, leader=row[0] if led else -1), ids, rows, st.booleans()
        ),
        st.builds(lambda spu: custom(spu), ids),
        st.builds(managed, ids, st.sampled_from(["a", "b"])),
        st.builds(lambda name, number: topic(name, number=number), st.sampled_from("xy"), ids),
        st.builds(lambda name: group(name, 1, 1), st.sampled_from("xy")),
    )


@given(st.lists(st.tuples(_objects(), st.booleans()), max_size=60))
def test_indexes_are_those_of_a_store_that_was_told_only_what_is_left(changes: list[tuple[Object, bool]]) -> None:
    store, left = LocalStore(), dict[str, Object]()
    topics: dict[str, str] = {}
    for version, (found, is_removed) in enumerate(changes, 1):
        if isinstance(found, Topic) and topics.setdefault(str(found.id), found.name) != found.name:
            continue  # An id belongs to one topic for ever.
        key = key_of(found)
        if is_removed:
            store.apply(Removed(key, version))
            left.pop(key, None)
        else:
            now = replace(found, version=version)
            store.apply(Stored(now))
            left[key] = now
    again = LocalStore()
    for each in left.values():
        again.apply(Stored(each))
    assert dict(store.objects) == left
    for name in vars(store):
        assert getattr(store, name) == getattr(again, name), name
