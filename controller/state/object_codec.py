"""Encodes objects for the KV store: a key, and a JSON document sealed with a checksum.

A store may be shared, copied, or edited by hand. A value that the SC did not write itself, byte for byte, is refused
with a message that names the key: decisions from a half-understood object would be stored, and then be true.
"""

import json

import crc32c
from msgspec.structs import replace

from tailrace.controller.key_value import interface as key_value
from tailrace.controller.key_value.interface import VALUE_BYTES_MAX
from tailrace.controller.objects.document_fields import FieldError
from tailrace.controller.objects.object_documents import DEFAULTS_NAME, document_of, read_document
from tailrace.controller.objects.objects import (
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
from tailrace.security.records import security_records

from .actions import Delete, KvAction

FORMAT = 1
SECURITY_PREFIX = "security/"
"""The beginning of the keys of all users, access rules, quotas and delegation tokens."""

_SEAL = b',"crc32c":"%08x"}'
_SEAL_BYTES = len(_SEAL % 0)
_compact = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class ObjectError(Exception):
    """A stored value is not an object that the SC could have written; the message is one sentence."""


class OversizedError(Exception):
    """An object is larger than the KV store accepts."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"it takes {size_bytes} bytes")
        self.size_bytes = size_bytes


def key_of(found: Object) -> str:
    """Returns the key under which the KV store holds the object."""
    match found:
        case Partition():
            return f"partition/{found.topic_id}/{found.number}"
        case Topic():
            return f"topic/{found.name}"
        case DeletedTopic():
            return f"deleted-topic/{found.topic.id}"
        case Spu():
            return f"spu/{found.spec.id}"
        case SpuGroup():
            return f"spu-group/{found.name}"
        case ConfigOverrides():
            return f"configs/{found.spu or DEFAULTS_NAME}"
        case GroupConfigs():
            return f"group-configs/{found.group}"
        case ClusterIdentity():
            return "cluster"
        case ProducerIdBlock():
            return "producer-ids"
        case StreamAttribute():
            return f"stream-state/{found.topic}/{found.group}"
        case ArchiveHead():
            return f"archive/{found.archive}"
        case Trigger():
            return f"trigger/{found.name}"
        case SecurityEntry(record):
            return security_key(security_records.kind_of(record), security_records.key_of(record))


def security_key(kind: str, key: str) -> str:
    """Returns the key under which the KV store holds a record of a kind."""
    return f"{SECURITY_PREFIX}{kind}/{key}"


def encode(found: Object) -> bytes:
    """Encodes an object without its version, which the store keeps itself."""
    return _sealed({"format": FORMAT, **document_of(found)})


def change_of(action: KvAction) -> key_value.Change:
    """Returns the change of the KV store that carries out the action. Raises OversizedError."""
    key, version = key_of(action.object), action.object.version
    if isinstance(action, Delete):
        return key_value.Delete(key, version)
    value = encode(action.object)
    if len(value) > VALUE_BYTES_MAX:
        raise OversizedError(len(value))
    return key_value.Put(key, value, version)


def decode(key: str, value: bytes, version: int) -> Object:
    """Decodes the object that the store holds under `key`. Raises ObjectError."""
    try:
        found = read_document(key.partition("/")[0], _unsealed(value))
    except FieldError as error:
        raise ObjectError(f"{key}: the value is not an object that an SC has written: {error}") from error
    if key_of(found) != key:
        raise ObjectError(f"{key}: the object there belongs under {key_of(found)}")
    return replace(found, version=version)


def _sealed(document: dict[str, object]) -> bytes:
    body = _compact(document).encode()[:-1]
    return body + _SEAL % crc32c.crc32c(body)


def _unsealed(value: bytes) -> dict[str, object]:
    """Returns the fields of an object after checking that they are unchanged since they were written."""
    if len(value) > VALUE_BYTES_MAX:
        raise FieldError(f"its {len(value)} bytes are more than any object has")
    body, seal = value[:-_SEAL_BYTES], value[-_SEAL_BYTES:]
    if not body.startswith(b'{"format":') or not seal.startswith(_SEAL[:11]):
        raise FieldError("it is not in the SC's format")
    if seal != _SEAL % crc32c.crc32c(body):
        raise FieldError("its checksum is wrong")
    try:
        document = json.loads(body + b"}")
    except (ValueError, RecursionError) as error:
        raise FieldError("it is not JSON") from error
    written = document.pop("format")
    if type(written) is not int or written != FORMAT:
        raise FieldError(f"its format is {written!r:.40}; this version reads format {FORMAT}")
    assert isinstance(document, dict)
    return document
