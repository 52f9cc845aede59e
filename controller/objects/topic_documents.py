"""Converts topics and partitions to and from documents, and reads replica maps.

A replica map may be a file of its own.
"""

from collections.abc import Collection
from uuid import UUID

from tailrace.cluster.replica_assignment import gap_in_rows
from tailrace.cluster.specs import NO_LEADER, Shelf
from tailrace.cluster.topic_names import CHARACTERS_MAX
from tailrace.protocol.ids import NO_EPOCH, NO_TOPIC_ID, Epoch, SpuId, TopicId

from .document_fields import INT_MAX, LONG_MAX, FieldError, Fields, shown
from .objects import (
    DeletedTopic,
    LiveReplicas,
    Partition,
    PartitionResolution,
    PartitionSpec,
    PartitionStatus,
    ReplicaMap,
    Topic,
    TopicResolution,
    TopicSpec,
    TopicStatus,
)

PARTITIONS_MAX = 100_000
REPLICATION_FACTOR_MAX = 2**15 - 1
_OTHER_WORDS = {"Invalid": TopicResolution.INVALID_CONFIG}

Document = dict[str, object]


def topic_document(topic: Topic) -> Document:
    """Returns a topic as a document."""
    spec: Document = {"partitions": topic.spec.partitions, "replicationFactor": topic.spec.replication_factor}
    if topic.spec.ignores_racks:
        spec["ignoreRackAssignment"] = True
    if topic.spec.replica_map:
        spec["replicaMap"] = _rows_document(topic.spec.replica_map)
    if topic.spec.configs:
        spec["configs"] = dict(topic.spec.configs)
    status: Document = {"resolution": topic.status.resolution.value}
    if topic.status.replica_map:
        status["replicaMap"] = _rows_document(topic.status.replica_map)
    if topic.status.reason:
        status["reason"] = topic.status.reason
    return {"name": topic.name, "id": str(topic.id), "spec": spec, "status": status}


def read_topic(whole: Fields, spec: Fields) -> Topic:
    """Reads a topic. Raises FieldError."""
    name = _name(whole, "name")
    topic_id = _topic_id(whole, "id", NO_TOPIC_ID)
    rows = read_rows(spec.raw("replicaMap"), spec.path_of("replicaMap"))
    topic_spec = TopicSpec(
        spec.number("partitions", 1, PARTITIONS_MAX, default=_partitions_of(rows, spec)),
        spec.number("replicationFactor", 1, REPLICATION_FACTOR_MAX, default=len(rows.get(0, ())) or 1),
        rows,
        spec.flag("ignoreRackAssignment", False),
        spec.texts("configs"),
    )
    status = whole.fields("status")
    topic_status = TopicStatus(
        status.choice("resolution", TopicResolution, TopicResolution.NONE, also=_OTHER_WORDS),
        read_rows(status.raw("replicaMap"), status.path_of("replicaMap")),
        status.text("reason", ""),
    )
    status.end()
    return Topic(name, topic_id, topic_spec, topic_status)


def deleted_topic_document(deleted: DeletedTopic) -> Document:
    """Returns a deleted topic as a document."""
    return {
        "name": str(deleted.topic.id),
        "deletedAtMs": deleted.deleted_at_ms,
        "topic": topic_document(deleted.topic),
    }


def read_deleted_topic(whole: Fields) -> DeletedTopic:
    """Reads a deleted topic. Raises FieldError."""
    inside = whole.fields("topic")
    spec = inside.fields("spec")
    topic = read_topic(inside, spec)
    spec.end()
    inside.end()
    name = whole.text("name", str(topic.id))
    if name != str(topic.id):
        raise whole.fault("name", f"{name!r} is not the topic's id, {topic.id}")
    return DeletedTopic(topic, whole.number("deletedAtMs", 0, LONG_MAX, noun="a time"))


def partition_document(partition: Partition) -> Document:
    """Returns a partition as a document."""
    spec: Document = {
        "initialLeader": int(partition.spec.initial_leader),
        "replicas": list(partition.spec.replicas),
    }
    if partition.spec.copy_sets:
        spec["copySets"] = list(map(list, partition.spec.copy_sets))
    if partition.spec.shelved_from:
        spec["shelvedFrom"] = partition.spec.shelved_from
    if partition.spec.shelves:
        spec["shelves"] = list(map(_shelf_document, partition.spec.shelves))
    status: Document = {
        "resolution": partition.status.resolution.value,
        "leader": int(partition.status.leader),
        "epoch": int(partition.status.epoch),
        "lrs": list(partition.status.live_replicas),
        "lrsIncarnations": list(partition.status.live_replicas.values()),
        "lrsVersion": partition.status.live_version,
    }
    if partition.status.incarnation:
        status["incarnation"] = partition.status.incarnation
    if partition.status.reason:
        status["reason"] = partition.status.reason
    if partition.status.was_unclean:
        status["wasUnclean"] = True
    return {
        "topic": partition.topic,
        "topicId": str(partition.topic_id),
        "partition": partition.number,
        "spec": spec,
        "status": status,
    }


def read_partition(whole: Fields, spec: Fields) -> Partition:
    """Reads a partition. Raises FieldError."""
    topic = _name(whole, "topic")
    topic_id = _topic_id(whole, "topicId", None)
    number = whole.number("partition", noun="a partition")
    initial_leader = SpuId(spec.number("initialLeader", noun="an id"))
    replicas = _ids(spec.raw("replicas"), spec.path_of("replicas"))
    if not replicas or len(set(replicas)) != len(replicas):
        raise spec.fault("replicas", f"{list(replicas)} is not a list of one or more different SPUs")
    partition_spec = PartitionSpec(
        initial_leader,
        replicas,
        _copy_sets(spec),
        spec.number("shelvedFrom", 0, LONG_MAX, default=0, noun="an offset"),
        _shelves(spec),
    )
    status = whole.fields("status")
    partition_status = PartitionStatus(
        status.choice("resolution", PartitionResolution, PartitionResolution.NONE),
        SpuId(status.number("leader", NO_LEADER, default=NO_LEADER, noun="an id")),
        Epoch(status.number("epoch", NO_EPOCH, default=NO_EPOCH, noun="an epoch")),
        status.text("incarnation", ""),
        _live_replicas(status),
        status.number("lrsVersion", 0, default=0),
        status.text("reason", ""),
        status.flag("wasUnclean", False),
    )
    status.end()
    return Partition(topic, topic_id, number, partition_spec, partition_status)


def read_rows(value: object, path: str) -> dict[int, tuple[SpuId, ...]]:
    """Reads a replica map in any of three forms: `{0: [0, 1]}`, the list `- 0: [0, 1]`, or a list of rows.

    Callers check whether the rows fit together and name known SPUs. Raises FieldError.
    """
    if value is None:
        return {}
    rows: dict[int, tuple[SpuId, ...]] = {}
    for number, replicas in _entries(value, path):
        if number in rows:
            raise FieldError(f"{path}: partition {number} is given twice")
        rows[number] = _ids(replicas, f"{path}.{number}")
    return dict(sorted(rows.items()))


def _entries(value: object, path: str) -> list[tuple[int, object]]:
    if isinstance(value, dict):
        return [(_partition_number(key, path), replicas) for key, replicas in value.items()]
    if not isinstance(value, list):
        raise FieldError(f"{path}: {shown(value)} is not a map from partitions to lists of SPUs")
    if any(isinstance(each, dict) for each in value):
        entries = []
        for index, each in enumerate(value):
            if not isinstance(each, dict) or len(each) != 1:
                raise FieldError(f"{path}[{index}]: {shown(each)} is not one partition with its list of SPUs")
            entries += _entries(each, path)
        return entries
    return list(enumerate(value))


def _partition_number(key: object, path: str) -> int:
    if isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) <= len(str(PARTITIONS_MAX)):
        key = int(key)
    if type(key) is not int or not 0 <= key < PARTITIONS_MAX:
        raise FieldError(f"{path}: {shown(key)} is not a partition from 0 to {PARTITIONS_MAX - 1}")
    return key


def _ids(value: object, path: str) -> tuple[SpuId, ...]:
    if not isinstance(value, list):
        raise FieldError(f"{path}: {'it is missing' if value is None else shown(value) + ' is not a list of SPUs'}")
    for each in value:
        if type(each) is not int or not 0 <= each <= INT_MAX:
            raise FieldError(f"{path}: {shown(each)} is not the id of an SPU, from 0 to {INT_MAX}")
    return tuple(value)


def _copy_sets(spec: Fields) -> tuple[tuple[SpuId, ...], ...]:
    sets, path = spec.raw("copySets") or [], spec.path_of("copySets")
    if not isinstance(sets, list):
        raise FieldError(f"{path}: {shown(sets)} is not a list of lists of SPUs")
    return tuple(_ids(each, f"{path}[{index}]") for index, each in enumerate(sets))


def _shelf_document(shelf: Shelf) -> Document:
    document: Document = {"base": shelf.base, "end": shelf.end, "stores": list(shelf.stores)}
    return document | ({"filling": list(shelf.filling)} if shelf.filling else {})


def _shelves(spec: Fields) -> tuple[Shelf, ...]:
    shelves: list[Shelf] = []
    for fields in spec.each("shelves") or ():
        base = fields.number("base", 0, LONG_MAX, noun="an offset")
        if shelves and base != shelves[-1].end:
            raise fields.fault("base", f"{base} is not {shelves[-1].end}, where the previous shelf ends")
        end = fields.number("end", base, LONG_MAX, noun="an offset")
        stores = _ids(fields.raw("stores"), fields.path_of("stores"))
        filling = _ids(fields.raw("filling") or [], fields.path_of("filling"))
        if not stores or len({*stores, *filling}) != len(stores) + len(filling):
            named = list(stores + filling)
            raise fields.fault("stores", f"{named}, with those of filling, is not a list of one or more different SPUs")
        fields.end()
        shelves.append(Shelf(base, end, stores, filling))
    return tuple(shelves)


def _live_replicas(status: Fields) -> LiveReplicas:
    spus = _ids(status.raw("lrs") or [], status.path_of("lrs"))
    incarnations = status.raw("lrsIncarnations") or [""] * len(spus)
    if not isinstance(incarnations, list) or not all(isinstance(each, str) for each in incarnations):
        raise status.fault("lrsIncarnations", f"{shown(incarnations)} is not a list of incarnations")
    if len(incarnations) != len(spus) or len(set(spus)) != len(spus):
        raise status.fault("lrsIncarnations", "there must be one for each SPU of lrs, each of them once")
    return dict(zip(spus, incarnations, strict=True))


def _rows_document(rows: ReplicaMap) -> dict[int, list[int]]:
    return {number: list(replicas) for number, replicas in rows.items()}


def _partitions_of(rows: Collection[int], spec: Fields) -> int:
    """Returns the default number of partitions: one for each row, in which case no row may be missing."""
    gap = gap_in_rows(rows)
    if gap is not None and not spec.has("partitions"):
        raise spec.fault("replicaMap", f"partition {gap} is missing; with partitions given, the SC places the others")
    return max(rows, default=0) + 1


def _name(whole: Fields, field: str) -> str:
    name = whole.text(field)
    if not name or "/" in name:
        raise whole.fault(
            field, f"{name!r} cannot name a topic: 1 to {CHARACTERS_MAX} ASCII letters, digits, '.', '_', '-'"
        )
    return name


def _topic_id(whole: Fields, field: str, default: TopicId | None) -> TopicId:
    text = whole.text(field, "" if default is not None else None)
    if text == "" and default is not None:
        return default
    try:
        topic_id = UUID(text)
    except ValueError:
        topic_id = NO_TOPIC_ID
    if str(topic_id) != text:
        raise whole.fault(field, f"{shown(text)} is not the id of a topic, such as {UUID(int=2**96 + 2**64)}")
    return topic_id
