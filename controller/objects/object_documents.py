"""Converts objects to and from documents, for people and for the store.

A document is `{kind, name, spec, status}`. A person may write only the spec, and leave out fields that have a default.
Documents that the SC writes are complete, and it accepts them again. The modules `spu_documents` and `topic_documents`
know the fields of each kind. The names of fields are those of the project's design documents.
"""

import re
from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.topic_configs import check_for_replicas, check_topic_configs
from tailrace.cluster.replica_assignment import fault_of_rows
from tailrace.cluster.topic_names import check_topic_name
from tailrace.protocol.error_codes import KafkaError
from tailrace.runtime.settings import SettingsError
from tailrace.security.records.security_records import (
    RecordError,
    document_of_record,
    key_of,
    kind_of,
    read_record,
)
from tailrace.security.settings.secret import Secret

from .document_fields import LONG_MAX, FieldError, Fields
from .objects import (
    ArchiveHead,
    ClusterIdentity,
    ConfigOverrides,
    DeletedTopic,
    GroupConfigs,
    Object,
    Partition,
    ProducerIdBlock,
    SecurityEntry,
    Spu,
    SpuGroup,
    StreamAttribute,
    Topic,
    Trigger,
)
from .spu_documents import (
    Document,
    check_spu,
    check_template,
    read_spu,
    read_spu_group,
    spu_document,
    spu_group_document,
)
from .topic_documents import (
    deleted_topic_document,
    partition_document,
    read_deleted_topic,
    read_partition,
    read_topic,
    topic_document,
)
from .trigger_documents import (
    check_trigger,
    read_stream_attribute,
    read_trigger,
    stream_attribute_document,
    trigger_document,
)

DEFAULTS_NAME = "default"
"""The name of the object with the broker configs for all SPUs."""

A = TypeVar("A")
R = TypeVar("R")

_SPU_ID = re.compile(r"0|[1-9][0-9]{0,9}")


def document_of(found: Object) -> Document:
    """Returns the object as a document, without its version in the store."""
    match found:
        case Partition():
            return {"kind": "partition", **partition_document(found)}
        case Topic():
            return {"kind": "topic", **topic_document(found)}
        case DeletedTopic():
            return {"kind": "deleted-topic", **deleted_topic_document(found)}
        case Spu():
            return {"kind": "spu", **spu_document(found)}
        case SpuGroup():
            return {"kind": "spu-group", **spu_group_document(found)}
        case ConfigOverrides():
            return {"kind": "configs", "name": found.spu or DEFAULTS_NAME, "spec": {"configs": dict(found.configs)}}
        case GroupConfigs():
            return {"kind": "group-configs", "name": found.group, "spec": {"configs": dict(found.configs)}}
        case ClusterIdentity():
            secret = found.login_secret.reveal()
            identity = {"clusterId": found.cluster_id} | ({"loginSecret": secret} if secret else {})
            return {"kind": "cluster", "spec": identity}
        case ProducerIdBlock():
            return {"kind": "producer-ids", "spec": {"nextId": found.next_id}}
        case StreamAttribute():
            return {"kind": "stream-state", **stream_attribute_document(found)}
        case ArchiveHead():
            return {"kind": "archive", "name": found.archive, "spec": {"head": found.text}}
        case Trigger():
            return {"kind": "trigger", **trigger_document(found)}
        case SecurityEntry(record):
            spec = {"kind": kind_of(record), "record": document_of_record(record)}
            return {"kind": "security", "name": key_of(record), "spec": spec}


def parse_object(kind: str, document: object, name: str | None = None) -> Object:
    """Returns the object that a person's document describes, after every check that needs no other object.

    `name` is the name of the object if the document does not say it. Raises FieldError.
    """
    found = read_document(kind, document, name)
    match found:
        case Topic():
            return _checked_topic(found)
        case Spu():
            check_spu(found.spec)
            _checked("configs", BrokerConfigs, found.spec.configs)
        case SpuGroup():
            check_template(found.spec.template)
            _checked("template.configs", BrokerConfigs, found.spec.template.configs)
        case Trigger():
            _checked("topic", check_topic_name, found.spec.topic)
            check_trigger(found)
    return found


def read_document(kind: str, document: object, name: str | None = None) -> Object:
    """Returns the object that a document describes. Raises FieldError if a single field is wrong.

    Whether the fields fit together is not checked: the controllers judge the objects in the store.
    """
    whole = Fields(document)
    stated = whole.text("kind", kind)
    if folded(stated) != folded(kind):
        raise whole.fault("kind", f"it is {stated!r} and should be {kind!r}")
    if name is not None:
        whole.default("name", name)
    spec = whole.fields("spec") if whole.has("spec") else whole
    found = _read(kind, whole, spec)
    spec.end()
    whole.end()
    return found


def _read(kind: str, whole: Fields, spec: Fields) -> Object:
    match kind:
        case "partition":
            return read_partition(whole, spec)
        case "topic":
            return read_topic(whole, spec)
        case "deleted-topic":
            return read_deleted_topic(whole)
        case "spu":
            return read_spu(whole, spec)
        case "spu-group":
            return read_spu_group(whole, spec)
        case "configs":
            return ConfigOverrides(_config_owner(whole), spec.texts("configs"))
        case "group-configs":
            return GroupConfigs(whole.text("name"), spec.texts("configs"))
        case "cluster":
            return ClusterIdentity(spec.text("clusterId"), login_secret=Secret(spec.text("loginSecret", "")))
        case "producer-ids":
            return ProducerIdBlock(spec.number("nextId", 0, LONG_MAX))
        case "stream-state":
            return read_stream_attribute(whole, spec)
        case "archive":
            return ArchiveHead(whole.text("name"), spec.text("head"))
        case "trigger":
            return read_trigger(whole, spec)
        case "security":
            return _read_security(whole, spec)
    raise FieldError(f"kind: there is no kind {kind!r}")


def _read_security(whole: Fields, spec: Fields) -> SecurityEntry:
    try:
        record = read_record(spec.text("kind"), spec.raw("record"))
    except RecordError as error:
        raise FieldError(f"record: {error}") from error
    if whole.text("name") != key_of(record):
        raise FieldError("name: it is not the key of the record")
    return SecurityEntry(record)


def _checked_topic(topic: Topic) -> Topic:
    spec = topic.spec
    _checked("name", check_topic_name, topic.name)
    fault = fault_of_rows(spec.replica_map)
    if fault is not None:
        raise FieldError(f"replicaMap: {fault}")
    for number, row in spec.replica_map.items():
        if number >= spec.partitions:
            raise FieldError(f"replicaMap: it has partition {number}, but partitions says {spec.partitions}")
        if len(row) != spec.replication_factor:
            raise FieldError(
                f"replicaMap: partition {number} has {len(row)} replicas, but replicationFactor says "
                f"{spec.replication_factor}"
            )
    configs = _checked("configs", check_topic_configs, spec.configs)
    _checked("configs", lambda checked: check_for_replicas(checked, spec.replication_factor), configs)
    return replace(topic, spec=replace(spec, configs=configs))


def _checked(path: str, check: Callable[[A], R], value: A) -> R:
    try:
        return check(value)
    except KafkaError as error:
        raise FieldError(f"{path}: {error.message}") from error
    except SettingsError as error:
        raise FieldError(f"{path}: {error}") from error


def _config_owner(whole: Fields) -> str:
    name = whole.text("name")
    if name == DEFAULTS_NAME:
        return ""
    if _SPU_ID.fullmatch(name) is None:
        raise whole.fault("name", f"{name!r} is neither the id of an SPU nor {DEFAULTS_NAME!r}")
    return name


def folded(kind: str) -> str:
    """Returns a kind without case and hyphens, so that `SpuGroup` equals `spu-group`."""
    return kind.replace("-", "").replace("_", "").lower()
