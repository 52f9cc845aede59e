from uuid import UUID

import pytest

from tailrace.cluster.specs import Shelf
from tailrace.controller.objects.document_fields import FieldError
from tailrace.controller.objects.object_documents import document_of, parse_object
from tailrace.controller.objects.objects import (
    DeletedTopic,
    Partition,
    PartitionSpec,
    PartitionStatus,
    Topic,
    TopicResolution,
    TopicSpec,
)
from tailrace.controller.objects.topic_documents import partition_document, read_rows
from tailrace.protocol.ids import NO_TOPIC_ID, SpuId

TOPIC_ID = UUID("0f0e0d0c-0b0a-0908-0706-050403020100")
SEED_MAP = {
    0: (0, 1, 2),
    1: (1, 2, 0),
    2: (2, 1, 0),
    3: (0, 1, 2),
    4: (1, 2, 0),
    5: (2, 1, 0),
}


def _fault(kind: str, document: object, name: str | None = None) -> str:
    with pytest.raises(FieldError) as caught:
        parse_object(kind, document, name)
    return str(caught.value)


def test_the_seeds_topic() -> None:
    assert parse_object("topic", {"partitions": 6, "replicationFactor": 3}, "orders") == Topic(
        "orders", NO_TOPIC_ID, TopicSpec(6, 3)
    )


def test_the_seeds_status_of_a_topic() -> None:
    rows = [{number: list(row)} for number, row in SEED_MAP.items()]
    document = {"name": "orders", "spec": {}, "status": {"resolution": "Provisioned", "replicaMap": rows}}
    topic = parse_object("topic", document)
    assert isinstance(topic, Topic)
    assert topic.status.resolution is TopicResolution.PROVISIONED
    assert topic.status.replica_map == SEED_MAP


def test_invalid_is_another_word_for_invalid_config() -> None:
    topic = parse_object("topic", {"name": "a", "spec": {}, "status": {"resolution": "Invalid"}})
    assert isinstance(topic, Topic)
    assert topic.status.resolution is TopicResolution.INVALID_CONFIG
    assert document_of(topic)["status"] == {"resolution": "InvalidConfig"}


def test_the_seeds_partition() -> None:
    document = {
        "topic": "orders",
        "topicId": str(TOPIC_ID),
        "partition": 4,
        "spec": {"initialLeader": 101, "replicas": [101, 102]},
        "status": {
            "leader": 101,
            "lrs": [101, 102],
            "lrsIncarnations": ["a", "a"],
            "lrsVersion": 4,
            "wasUnclean": True,
        },
    }
    both = (SpuId(101), SpuId(102))
    assert parse_object("partition", document) == Partition(
        "orders",
        TOPIC_ID,
        4,
        PartitionSpec(SpuId(101), both),
        PartitionStatus(leader=SpuId(101), live_replicas=dict.fromkeys(both, "a"), live_version=4, was_unclean=True),
    )


@pytest.mark.parametrize(
    "value",
    [
        {number: list(row) for number, row in SEED_MAP.items()},
        {str(number): list(row) for number, row in SEED_MAP.items()},
        [{number: list(row)} for number, row in reversed(SEED_MAP.items())],
        [list(row) for row in SEED_MAP.values()],
    ],
)
def test_a_map_of_replicas_has_several_forms(value: object) -> None:
    rows = read_rows(value, "file")
    assert rows == SEED_MAP
    assert list(rows) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (5, "file: 5 is not a map from partitions to lists of SPUs"),
        ({-1: [0]}, "file: -1 is not a partition from 0 to 99999"),
        ({"x": [0]}, "file: 'x' is not a partition from 0 to 99999"),
        ({True: [0]}, "file: true is not a partition from 0 to 99999"),
        ({100000: [0]}, "file: 100000 is not a partition from 0 to 99999"),
        ({0: 1}, "file.0: 1 is not a list of SPUs"),
        ({0: None}, "file.0: it is missing"),
        ({0: [-1]}, "file.0: -1 is not the id of an SPU, from 0 to 2147483647"),
        ({0: ["1"]}, "file.0: '1' is not the id of an SPU, from 0 to 2147483647"),
        ([{0: [1]}, {0: [1]}], "file: partition 0 is given twice"),
        ({0: [1], "0": [1]}, "file: partition 0 is given twice"),
        ([{0: [1], 1: [1]}], "file[0]: a mapping is not one partition with its list of SPUs"),
        ([{0: [1]}, [1]], "file[1]: a list is not one partition with its list of SPUs"),
    ],
)
def test_invalid_replica_maps(value: object, fault: str) -> None:
    with pytest.raises(FieldError) as caught:
        read_rows(value, "file")
    assert str(caught.value) == fault


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({"partitions": 0}, "partitions: 0 is not a whole number from 1 to 100000"),
        ({"replicationFactor": 0}, "replicationFactor: 0 is not a whole number from 1 to 32767"),
        ({"ignoreRackAssignment": "no"}, "ignoreRackAssignment: 'no' is neither true nor false"),
        ({"replicationfactor": 1}, "unknown field 'replicationfactor'; did you mean 'replicationFactor'?"),
        ({"id": "5"}, "id: '5' is not the id of a topic, such as "),
        ({"id": str(TOPIC_ID).upper()}, "id: '0F0E"),
    ],
)
def test_faults_of_topics(document: object, fault: str) -> None:
    assert _fault("topic", document, "a").startswith(fault)


@pytest.mark.parametrize("replicas", [[], [1, 1], None, 5, [-1]])
def test_the_replicas_of_a_partition_are_some_and_differ(replicas: object) -> None:
    document = {"topic": "a", "topicId": str(TOPIC_ID), "partition": 0, "initialLeader": 1, "replicas": replicas}
    assert _fault("partition", document).startswith("replicas: ")


@pytest.mark.parametrize(
    ("sets", "fault"),
    [
        (5, "copySets: 5 is not a list of lists of SPUs"),
        ([1, 2], "copySets[0]: 1 is not a list of SPUs"),
        ([[1], [-2]], "copySets[1]: -2 is not the id of an SPU"),
    ],
)
def test_copy_sets_are_lists_of_spus(sets: object, fault: str) -> None:
    document = {"topic": "a", "topicId": str(TOPIC_ID), "partition": 0, "initialLeader": 1, "replicas": [1]}
    assert _fault("partition", document | {"copySets": sets}).startswith(fault)


SHELF = {"base": 5, "end": 9, "stores": [4, 5]}


def test_the_document_of_a_partition_has_its_shelves() -> None:
    shelves = (Shelf(5, 9, (SpuId(4), SpuId(5))), Shelf(9, 9, (SpuId(6),), (SpuId(4),)))
    partition = Partition("a", TOPIC_ID, 0, PartitionSpec(SpuId(1), (SpuId(1),), (), 7, shelves))
    document = partition_document(partition)
    assert document["spec"] == {
        "initialLeader": 1,
        "replicas": [1],
        "shelvedFrom": 7,
        "shelves": [SHELF, {"base": 9, "end": 9, "stores": [6], "filling": [4]}],
    }
    assert parse_object("partition", document) == partition


@pytest.mark.parametrize(
    ("shelves", "fault"),
    [
        (5, "shelves: 5 is not a list"),
        ([5], "shelves[0]: 5 is not a mapping of fields"),
        ([SHELF | {"base": -1}], "shelves[0].base: -1 is not an offset from 0 to"),
        ([SHELF | {"end": 4}], "shelves[0].end: 4 is not an offset from 5 to"),
        ([SHELF, SHELF | {"base": 10, "end": 12}], "shelves[1].base: 10 is not 9, where the previous shelf ends"),
        (
            [SHELF | {"stores": []}],
            "shelves[0].stores: [], with those of filling, is not a list of one or more different SPUs",
        ),
        (
            [SHELF | {"filling": [5]}],
            "shelves[0].stores: [4, 5, 5], with those of filling, is not a list of one or more different SPUs",
        ),
        ([SHELF | {"filled": [6]}], "shelves[0]: unknown field 'filled'; did you mean 'filling'?"),
    ],
)
def test_shelves_follow_each_other_and_are_somewhere(shelves: object, fault: str) -> None:
    document = {"topic": "a", "topicId": str(TOPIC_ID), "partition": 0, "initialLeader": 1, "replicas": [1]}
    assert _fault("partition", document | {"shelves": shelves}).startswith(fault)


def test_a_partition_names_its_topic() -> None:
    assert _fault("partition", {"topic": "a", "partition": 0}) == "topicId: it is missing"
    assert _fault("partition", {"topicId": str(TOPIC_ID), "partition": 0}) == "topic: it is missing"


def test_a_deleted_topic_is_called_by_its_id() -> None:
    deleted = DeletedTopic(Topic("a", TOPIC_ID, TopicSpec()), 5)
    document = document_of(deleted)
    assert document["name"] == str(TOPIC_ID)
    assert parse_object("deleted-topic", document) == deleted
    assert _fault("deleted-topic", document | {"name": "x"}) == f"name: 'x' is not the topic's id, {TOPIC_ID}"
    assert _fault("deleted-topic", document | {"deletedAtMs": -1}).startswith("deletedAtMs: -1 is not a time from 0")
