import json

import pytest
from hypothesis import given
from msgspec.structs import replace
from object_samples import objects, people_write

from tailrace.controller.objects.document_fields import FieldError
from tailrace.controller.objects.object_documents import document_of, parse_object, read_document
from tailrace.controller.objects.objects import (
    ClusterIdentity,
    ConfigOverrides,
    GroupConfigs,
    Object,
    SpuGroup,
    SpuGroupSpec,
    SpuTemplate,
    Topic,
    TopicSpec,
)
from tailrace.protocol.ids import NO_TOPIC_ID, SpuId


@given(objects)
def test_documents_that_the_sc_writes_are_accepted_again(found: Object) -> None:
    document = document_of(found)
    assert read_document(str(document["kind"]), document) == found
    assert read_document(str(document["kind"]), json.loads(json.dumps(document))) == found


@given(people_write)
def test_a_document_says_what_it_is(found: Object) -> None:
    document = document_of(found)
    kind = str(document["kind"])
    assert (document.keys() >= {"kind", "spec", "status"}) or kind == "deleted-topic"
    for another in {"spu", "topic"} - {kind}:
        with pytest.raises(FieldError, match=f"^kind: it is '{kind}' and should be '{another}'$"):
            read_document(another, document)


def _fault(kind: str, document: object, name: str | None = None) -> str:
    with pytest.raises(FieldError) as caught:
        parse_object(kind, document, name)
    return str(caught.value)


def test_a_spec_may_stand_alone_or_in_a_whole_document() -> None:
    whole = {"kind": "topic", "name": "orders", "spec": {"partitions": 6, "replicationFactor": 3}}
    flat = {"name": "orders", "partitions": 6, "replicationFactor": 3}
    bare = {"partitions": 6, "replicationFactor": 3}
    expected = Topic("orders", NO_TOPIC_ID, TopicSpec(6, 3))
    assert (
        parse_object("topic", whole) == parse_object("topic", flat) == parse_object("topic", bare, "orders") == expected
    )


def test_a_name_inside_wins() -> None:
    assert parse_object("topic", {"name": "a"}, "b") == Topic("a", NO_TOPIC_ID, TopicSpec())


@pytest.mark.parametrize("kind", ["spu-group", "SpuGroup", "SPUGROUP", "spu_group"])
def test_a_kind_may_be_written_in_several_ways(kind: str) -> None:
    assert parse_object("spu-group", {"kind": kind, "name": "main"}) == SpuGroup("main", SpuGroupSpec())


def test_fields_beside_the_spec_are_checked_too() -> None:
    fault = _fault("topic", {"name": "orders", "partitions": 6, "spec": {}})
    assert fault.startswith("unknown field 'partitions'")
    assert _fault("topic", {"name": "orders", "spec": {"partition": 6}}) == (
        "spec: unknown field 'partition'; did you mean 'partitions'?"
    )


def test_an_unknown_kind() -> None:
    assert _fault("pod", {}) == "kind: there is no kind 'pod'"


def test_topics_are_checked_as_a_whole() -> None:
    assert _fault("topic", {}, "a/b").startswith("name: 'a/b' cannot name a topic: 1 to 249 ASCII letters")
    assert _fault("topic", {}, "ä").startswith("name: 'ä' cannot name a topic: it may hold ASCII letters")
    assert _fault("topic", {"configs": {"retention.hours": 5}}, "a") == (
        "configs: there is no topic config 'retention.hours'"
    )
    assert _fault("topic", {"configs": {"retention.ms": "long"}}, "a").startswith("configs: retention.ms: ")
    assert parse_object("topic", {"configs": {"cleanup.policy": "compact, delete", "retention.ms": 5}}, "a") == Topic(
        "a", NO_TOPIC_ID, TopicSpec(configs={"cleanup.policy": "compact,delete", "retention.ms": "5"})
    )


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"replicaMap": {0: [0, 0]}}, "replicaMap: partition 0 names an SPU twice"),
        ({"replicaMap": {0: [0, 1], 1: [1]}}, "replicaMap: partition 1 has 1 replica, but the first one has 2"),
        ({"replicaMap": {0: []}}, "replicaMap: partition 0 has no replica"),
        ({"replicaMap": {0: [0], 1: [1]}, "partitions": 1}, "replicaMap: it has partition 1, but partitions says 1"),
        (
            {"configs": {"replication.policy": "nrw:3,2,2"}, "replicationFactor": 2},
            "configs: replication.policy: nrw:3,2,2 is for 3 replicas, but there are 2",
        ),
        (
            {"replicaMap": {0: [0]}, "replicationFactor": 2},
            "replicaMap: partition 0 has 1 replicas, but replicationFactor says 2",
        ),
        (
            {"replicaMap": {1: [0]}},
            "replicaMap: partition 0 is missing; with partitions given, the SC places the others",
        ),
    ],
)
def test_rows_by_hand_fit_together(spec: object, fault: str) -> None:
    assert _fault("topic", spec, "a") == fault


def test_the_numbers_follow_the_rows_by_hand() -> None:
    topic = parse_object("topic", {"replicaMap": {0: [0, 1], 1: [1, 0]}}, "a")
    assert isinstance(topic, Topic)
    assert (topic.spec.partitions, topic.spec.replication_factor) == (2, 2)
    some = parse_object("topic", {"replicaMap": {1: [0, 1]}, "partitions": 3, "replicationFactor": 2}, "a")
    assert isinstance(some, Topic)
    assert (some.spec.partitions, some.spec.replica_map) == (3, {1: (SpuId(0), SpuId(1))})


def test_broker_configs_of_spus_are_checked() -> None:
    good = {"num.partitions": 3}
    group = parse_object("spu-group", {"template": {"configs": good}}, "main")
    assert isinstance(group, SpuGroup)
    assert group.spec.template == replace(SpuTemplate(), configs={"num.partitions": "3"})
    assert _fault("spu-group", {"template": {"configs": {"num.partition": 3}}}, "main").startswith("template.configs: ")
    assert _fault("spu", {"spuId": 1, "configs": {"num.partitions": "x"}}).startswith("configs: ")


def test_broker_configs_belong_to_an_spu_or_to_all() -> None:
    assert parse_object("configs", {"name": "default"}) == ConfigOverrides("", {})
    assert parse_object("configs", {"name": "7", "configs": {"a": "b"}}) == ConfigOverrides("7", {"a": "b"})
    for name in ("", "07", "x", "-1"):
        assert _fault("configs", {"name": name}) == f"name: {name!r} is neither the id of an SPU nor 'default'"


def test_group_configs_belong_to_a_group_of_any_name() -> None:
    assert parse_object("group-configs", {"name": "a/b c", "configs": {"a": "b"}}) == GroupConfigs("a/b c", {"a": "b"})
    assert _fault("group-configs", {"configs": {}}) == "name: it is missing"


def test_objects_that_a_store_has_once() -> None:
    assert parse_object("cluster", {"clusterId": "abc"}) == ClusterIdentity("abc")
    assert _fault("cluster", {}) == "clusterId: it is missing"
    assert "9223372036854775807" in _fault("producer-ids", {"nextId": 2**63})
