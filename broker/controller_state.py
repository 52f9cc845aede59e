"""What the source of specs remembers, and its one file: JSON with a format name, a version and a checksum.

The file is read once, at the start, and trusted only if all of it makes sense: half a state would quietly delete the
topics of the other half.
"""

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from tailrace.cluster.specs import PartitionSpec, TopicSpec
from tailrace.cluster.topic_configs import check_topic_configs
from tailrace.cluster.topic_names import check_topic_name
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import Epoch, SpuId, TopicId

FORMAT = "tailrace local controller"
VERSION = 1
T = TypeVar("T")


class StateError(Exception):
    """One sentence: why the file cannot be the state."""


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    topic: TopicSpec
    deleted_at_ms: int


@dataclass(frozen=True, slots=True)
class ControllerState:
    """Never changed in place: a change makes another state, which counts once it is in the file."""

    cluster_id: str
    next_producer_id: int = 0
    """The first that no block was given out from."""
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Set at run time: by SPU id, and for all SPUs under the empty name."""
    topics: Mapping[str, TopicSpec] = field(default_factory=dict)
    deleted_topics: tuple[DeletedTopic, ...] = ()
    """The oldest first; their storage is parked."""


def encode_state(state: ControllerState) -> bytes:
    body = {
        "cluster_id": state.cluster_id,
        "next_producer_id": state.next_producer_id,
        "broker_configs": {name: dict(configs) for name, configs in state.broker_configs.items()},
        "topics": [_topic_to_json(topic) for topic in state.topics.values()],
        "deleted_topics": [
            {"deleted_at_ms": deleted.deleted_at_ms, "topic": _topic_to_json(deleted.topic)}
            for deleted in state.deleted_topics
        ],
    }
    text = _dump(body)
    head = _dump({"format": FORMAT, "version": VERSION, "checksum": zlib.crc32(text.encode())})
    return f'{head[:-1]},"state":{text}}}\n'.encode()


def decode_state(data: bytes) -> ControllerState:
    """Raises StateError."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StateError(f"it is not JSON ({error})") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise StateError("it was not written by a Tailrace controller")
    if document.get("version") != VERSION:
        raise StateError(f"it has the version {document.get('version')!r}; this program reads version {VERSION}")
    body = document.get("state")
    if not isinstance(body, dict) or zlib.crc32(_dump(body).encode()) != document.get("checksum"):
        raise StateError("its checksum does not fit its content: it was damaged or edited")
    try:
        return _state_from_json(body)
    except (KeyError, TypeError, ValueError, IndexError, KafkaError) as error:
        raise StateError(f"its content makes no sense ({error})") from error


def new_cluster_id(uuid: Callable[[], UUID]) -> str:
    return _base64(new_topic_id(uuid))


def new_topic_id(uuid: Callable[[], UUID]) -> TopicId:
    """An id whose text does not start with a dash, or it would look like an option on a command line."""
    while True:
        topic_id = uuid()
        if topic_id.int > 1 and not _base64(topic_id).startswith("-"):
            return topic_id


def _base64(uuid: UUID) -> str:
    """The way Kafka writes ids."""
    return base64.urlsafe_b64encode(uuid.bytes).decode().rstrip("=")


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _topic_to_json(topic: TopicSpec) -> dict[str, Any]:
    return {
        "id": str(topic.id),
        "name": topic.name,
        "internal": topic.internal,
        "configs": dict(topic.configs),
        "partitions": [
            {
                "leader": partition.leader,
                "epoch": partition.epoch,
                "replicas": list(partition.replicas),
                "live_replicas": list(partition.live_replicas),
            }
            for partition in topic.partitions
        ],
    }


def _state_from_json(body: dict[str, Any]) -> ControllerState:
    topics = [_topic_from_json(each) for each in _typed(list, body["topics"])]
    by_name = {topic.name: topic for topic in topics}
    if len(by_name) != len(topics):
        raise ValueError("a topic is named twice")
    return ControllerState(
        cluster_id=_typed(str, body["cluster_id"]),
        next_producer_id=_typed(int, body["next_producer_id"]),
        broker_configs={name: _texts(configs) for name, configs in _typed(dict, body["broker_configs"]).items()},
        topics=by_name,
        deleted_topics=tuple(
            DeletedTopic(_topic_from_json(each["topic"]), _typed(int, each["deleted_at_ms"]))
            for each in _typed(list, body["deleted_topics"])
        ),
    )


def _topic_from_json(topic: dict[str, Any]) -> TopicSpec:
    topic_id = UUID(_typed(str, topic["id"]))
    name = _typed(str, topic["name"])
    check_topic_name(name)
    partitions = tuple(
        _partition_from_json(topic_id, name, number, each)
        for number, each in enumerate(_typed(list, topic["partitions"]))
    )
    if not partitions:
        raise ValueError(f"the topic {name} has no partition")
    configs = check_topic_configs(_texts(topic["configs"]))
    return TopicSpec(topic_id, name, configs, partitions, internal=_typed(bool, topic["internal"]))


def _partition_from_json(topic_id: TopicId, topic: str, number: int, partition: dict[str, Any]) -> PartitionSpec:
    return PartitionSpec(
        topic_id,
        topic,
        number,
        SpuId(_typed(int, partition["leader"])),
        Epoch(_typed(int, partition["epoch"])),
        _spu_ids(partition["replicas"]),
        _spu_ids(partition["live_replicas"]),
    )


def _spu_ids(values: object) -> tuple[SpuId, ...]:
    return tuple(SpuId(_typed(int, value)) for value in _typed(list, values))


def _texts(configs: object) -> dict[str, str]:
    return {name: _typed(str, text) for name, text in _typed(dict, configs).items()}


def _typed(kind: type[T], value: object) -> T:
    if type(value) is not kind:
        raise TypeError(f"{value!r:.100} stands where a {kind.__name__} belongs")
    return value
