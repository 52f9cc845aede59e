import json
from uuid import UUID

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from object_samples import objects
from security_samples import ALICE, READ_ORDERS

from tailrace.controller.key_value import interface as key_value
from tailrace.controller.objects.objects import (
    ArchiveHead,
    ClusterIdentity,
    ConfigOverrides,
    DeletedTopic,
    GroupConfigs,
    Object,
    Partition,
    PartitionSpec,
    ProducerIdBlock,
    SecurityEntry,
    Spu,
    SpuGroup,
    SpuGroupSpec,
    SpuSpec,
    StreamAttribute,
    Topic,
    TopicSpec,
)
from tailrace.controller.state.actions import Delete, Put
from tailrace.controller.state.object_codec import ObjectError, OversizedError, change_of, decode, encode, key_of
from tailrace.protocol.ids import SpuId
from tailrace.security.records.security_records import key_of as key_of_record

TOPIC_ID = UUID("0f0e0d0c-0b0a-0908-0706-050403020100")
TOPIC = Topic("orders", TOPIC_ID, TopicSpec())
PARTITION = Partition("orders", TOPIC_ID, 3, PartitionSpec(SpuId(101), (SpuId(101), SpuId(102))))


def _resealed(document: dict[str, object]) -> bytes:
    """Encodes a document as another program would that knows the format."""
    body = json.dumps(document, separators=(",", ":"))[:-1].encode()
    return body + b',"crc32c":"%08x"}' % crc32c.crc32c(body)


def _document(found: Object) -> dict[str, object]:
    document = json.loads(encode(found))
    assert isinstance(document, dict)
    del document["crc32c"]
    return document


@given(objects, st.integers(1, 2**60))
def test_encoded_objects_can_be_decoded(found: Object, version: int) -> None:
    assert decode(key_of(found), encode(found), version) == replace(found, version=version)


@pytest.mark.parametrize(
    ("found", "key"),
    [
        (ClusterIdentity("c"), "cluster"),
        (ProducerIdBlock(5), "producer-ids"),
        (ConfigOverrides("", {}), "configs/default"),
        (ConfigOverrides("11", {}), "configs/11"),
        (ArchiveHead(str(TOPIC_ID), "{}"), f"archive/{TOPIC_ID}"),
        (StreamAttribute("orders", "billing/eu", "{}"), "stream-state/orders/billing/eu"),
        (GroupConfigs("billing/eu", {"a": "b"}), "group-configs/billing/eu"),
        (Spu(SpuSpec(SpuId(11))), "spu/11"),
        (SpuGroup("main", SpuGroupSpec()), "spu-group/main"),
        (TOPIC, "topic/orders"),
        (DeletedTopic(TOPIC, 1), f"deleted-topic/{TOPIC_ID}"),
        (PARTITION, f"partition/{TOPIC_ID}/3"),
        (SecurityEntry(replace(ALICE, name="CN=a/b, ö")), "security/user/CN=a/b, ö"),
        (SecurityEntry(READ_ORDERS), f"security/acl/{key_of_record(READ_ORDERS)}"),
    ],
)
def test_keys(found: Object, key: str) -> None:
    assert key_of(found) == key
    assert decode(key, encode(found), 1) == replace(found, version=1)


def test_the_bytes_of_a_partition_are_these() -> None:
    """A store outlives the version that wrote it. If you change the format, keep reading the old one."""
    assert encode(PARTITION) == (
        b'{"format":1,"kind":"partition","topic":"orders","topicId":"0f0e0d0c-0b0a-0908-0706-050403020100","partition":3,'
        b'"spec":{"initialLeader":101,"replicas":[101,102]},'
        b'"status":{"resolution":"","leader":-1,"epoch":-1,"lrs":[],"lrsIncarnations":[],"lrsVersion":0},"crc32c":"d172ff3c"}'
    )


@given(objects, st.data())
def test_a_changed_byte_is_noticed(found: Object, data: st.DataObject) -> None:
    value = bytearray(encode(found))
    value[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ObjectError, match=r"(?s)^.+: "):
        decode(key_of(found), bytes(value), 1)


@settings(max_examples=30)
@given(objects, st.data())
def test_a_value_cut_short_is_noticed(found: Object, data: st.DataObject) -> None:
    value = encode(found)
    with pytest.raises(ObjectError):
        decode(key_of(found), value[: data.draw(st.integers(0, len(value) - 1))], 1)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(objects, _json, st.data())
def test_a_document_that_someone_changed_is_another_object_or_refused(
    found: Object, value: object, data: st.DataObject
) -> None:
    document = _document(found)
    place = document
    while True:
        name = data.draw(st.sampled_from(sorted(place)))
        inner = place[name]
        if not isinstance(inner, dict) or not inner or data.draw(st.booleans()):
            break
        place = inner
    if data.draw(st.booleans()):
        del place[name]
    else:
        place[name] = value
    try:
        read = decode(key_of(found), _resealed(document), 1)
    except ObjectError:
        return
    assert decode(key_of(read), encode(read), 1) == read


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (b"", "it is not in the SC's format"),
        (b"hello", "it is not in the SC's format"),
        (b'{"kind": "topic"}', "it is not in the SC's format"),
        (encode(TOPIC)[:-2] + b"x}", "it is not in the SC's format|its checksum is wrong"),
        (encode(TOPIC).replace(b"orders", b"border"), "its checksum is wrong"),
        (_resealed(_document(TOPIC) | {"format": 2}), "its format is 2; this version reads format 1"),
        (_resealed(_document(TOPIC) | {"format": True}), "its format is True; this version reads format 1"),
        (_resealed(_document(TOPIC) | {"owner": "me"}), "unknown field 'owner'"),
        (_resealed(_document(TOPIC) | {"kind": "spu"}), "kind: it is 'spu' and should be 'topic'"),
        (_resealed(_document(TOPIC) | {"id": "1"}), "id: '1' is not the id of a topic"),
        (b'{"format":' + b"[" * 10**5, "it is not in the SC's format"),
        (b" " * (1024 * 1024 + 1), "more than any object has"),
    ],
)
def test_foreign_values_are_refused_by_their_key(value: bytes, fault: str) -> None:
    message = f"^topic/orders: the value is not an object that an SC has written: .*({fault})"
    with pytest.raises(ObjectError, match=message):
        decode("topic/orders", value, 1)


def test_deep_json_is_refused() -> None:
    body = b'{"format":1,"kind":' + b"[" * 10**5
    with pytest.raises(ObjectError, match="it is not JSON"):
        decode("topic/orders", body + b',"crc32c":"%08x"}' % crc32c.crc32c(body), 1)


@pytest.mark.parametrize("key", ["topic/other", "topic/orders/1", "topic", "topics/orders", "", "cluster"])
def test_an_object_under_another_key_is_refused(key: str) -> None:
    with pytest.raises(ObjectError, match=f"^{key}: "):
        decode(key, encode(TOPIC), 1)


def test_an_action_is_a_change_of_the_version_that_was_seen() -> None:
    found = replace(TOPIC, version=7)
    assert change_of(Put(found)) == key_value.Put("topic/orders", encode(TOPIC), 7)
    assert change_of(Delete(found)) == key_value.Delete("topic/orders", 7)


def test_an_oversized_object_is_refused() -> None:
    large = replace(TOPIC, spec=TopicSpec(configs={"a": "x" * key_value.VALUE_BYTES_MAX}))
    with pytest.raises(OversizedError) as refused:
        change_of(Put(large))
    assert refused.value.size_bytes == len(encode(large))
    assert change_of(Delete(large)) == key_value.Delete("topic/orders", 0)
