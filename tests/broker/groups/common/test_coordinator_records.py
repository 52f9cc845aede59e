from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.groups.common.coordinator_records import GroupRecord, decode_record, encode_record
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from tailrace.protocol.group_records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from tailrace.protocol.group_records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from tailrace.protocol.group_records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    PartitionMetadata,
    TopicMetadata,
)
from tailrace.protocol.group_records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from tailrace.protocol.group_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from tailrace.protocol.group_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tailrace.protocol.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from tailrace.protocol.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue

ORDERS = UUID("764993ad-2cd8-40f0-93eb-14d654857892")
PAYMENTS = UUID("95433fd4-acf7-4268-8b38-8f697b0d178b")

FROM_APACHE_KAFKA: dict[str, tuple[str, str, Any, Any]] = {
    "an offset": (
        "0001000d636c61737369632d67726f757000066f726465727300000000",
        "0004000000000000000500000003056e6f7465000001a1ff6fbfe7010010764993ad2cd840f093eb14d654857892",
        OffsetCommitKey("classic-group", "orders", 0),
        OffsetCommitValue(5, 3, "note", 1795286876135, -1, ORDERS),
    ),
    "an offset that says when it expires": (
        "0001000a6f6c642d636c69656e7400066f726465727300000002",
        "0001000000000000000900016d000001a1ff7317ae000001a2049973ae",
        OffsetCommitKey("old-client", "orders", 2),
        OffsetCommitValue(9, -1, "m", 1795287095214, 1795373495214),
    ),
    "a classic group without members": (
        "0002000d636c61737369632d67726f7570",
        "0003000000000000ffffffff000001a1ff6fbe7a00000000",
        GroupMetadataKey("classic-group"),
        GroupMetadataValue("", 0, None, None, 1795286875770),
    ),
    "a classic group with a static member": (
        "0002000d636c61737369632d67726f7570",
        "00030008636f6e73756d657200000001000572616e6765002b696e73742d312d62313464646466662d623730322d346365392d6139"
        "30342d666632663061666137393734000001a1ff6fbea000000001002b696e73742d312d62313464646466662d623730322d346365"
        "392d613930342d6666326630616661373937340006696e73742d3100096d792d636c69656e74000a2f3132372e302e302e31000493"
        "e00000afc80000001200000000000100066f7264657273000000000000002200000000000100066f72646572730000000300000000"
        "000000010000000200000000",
        GroupMetadataKey("classic-group"),
        GroupMetadataValue(
            "consumer",
            1,
            "range",
            "inst-1-b14dddff-b702-4ce9-a904-ff2f0afa7974",
            1795286875808,
            [
                MemberMetadata(
                    "inst-1-b14dddff-b702-4ce9-a904-ff2f0afa7974",
                    "inst-1",
                    "my-client",
                    "/127.0.0.1",
                    300000,
                    45000,
                    bytes.fromhex("00000000000100066f726465727300000000"),
                    bytes.fromhex("00000000000100066f72646572730000000300000000000000010000000200000000"),
                )
            ],
        ),
    ),
    "the epoch of a consumer group": (
        "0003000c6d6f6465726e2d67726f7570",
        "000000000003010008ca15503821a8f89f",
        ConsumerGroupMetadataKey("modern-group"),
        ConsumerGroupMetadataValue(3, -3885110901524072289),
    ),
    "what partitions a consumer group once saw": (
        "0004000167",
        "00000200000000000000010000000000000002076f726465727300000003020000000103037231037232000000",
        ConsumerGroupPartitionMetadataKey("g"),
        ConsumerGroupPartitionMetadataValue(
            [TopicMetadata(UUID(int=(1 << 64) + 2), "orders", 3, [PartitionMetadata(1, ["r1", "r2"])])]
        ),
    ),
    "a member of a consumer group": (
        "0005000c6d6f6465726e2d67726f757000166c6b4c385475344e5335616157514344673466697051",
        "00000573742d32000872646b61666b610b2f3132372e302e302e310109285e7061792e2a29000493e00672616e676501000100",
        ConsumerGroupMemberMetadataKey("modern-group", "lkL8Tu4NS5aaWQCDg4fipQ"),
        ConsumerGroupMemberMetadataValue("st-2", None, "rdkafka", "/127.0.0.1", [], "(^pay.*)", 300000, "range"),
    ),
    "a classic member of a consumer group": (
        "0005000c6d6f6465726e2d67726f757000167a4768624b78384251714b7177655368657233323141",
        "000000000872646b61666b610b2f3132372e302e302e3102076f726465727301000493e00001002b010000afc8020672616e6765"
        "1d00030000000100066f72646572730000000000000000ffffffff00000000",
        ConsumerGroupMemberMetadataKey("modern-group", "zGhbKx8BQqKqweSher321A"),
        ConsumerGroupMemberMetadataValue(
            None,
            None,
            "rdkafka",
            "/127.0.0.1",
            ["orders"],
            "",
            300000,
            None,
            ClassicMemberMetadata(
                45000,
                [ClassicProtocol("range", bytes.fromhex("00030000000100066f72646572730000000000000000ffffffff0000"))],
            ),
        ),
    ),
    "the epoch of a target assignment": (
        "0006000c6d6f6465726e2d67726f7570",
        "000000000003010008000001a1ff6fd485",
        ConsumerGroupTargetAssignmentMetadataKey("modern-group"),
        ConsumerGroupTargetAssignmentMetadataValue(3, 1795286881413),
    ),
    "a member's part of a target assignment": (
        "0007000c6d6f6465726e2d67726f75700016477836306c6d6c41525471506d50374c2b6952336467",
        "000003764993ad2cd840f093eb14d6548578920300000000000000010095433fd4acf742688b388f697b0d178b02000000010000",
        ConsumerGroupTargetAssignmentMemberKey("modern-group", "Gx60lmlARTqPmP7L+iR3dg"),
        ConsumerGroupTargetAssignmentMemberValue([TopicPartition(ORDERS, [0, 1]), TopicPartition(PAYMENTS, [1])]),
    ),
    "what a member has and gives up": (
        "0008000c6d6f6465726e2d67726f75700016477836306c6d6c41525471506d50374c2b6952336467",
        "000000000002000000020103764993ad2cd840f093eb14d6548578920400000000000000010000000201000d04000000020000000200"
        "00000295433fd4acf742688b388f697b0d178b020000000101000502000000020295433fd4acf742688b388f697b0d178b0200000000"
        "010005020000000200",
        ConsumerGroupCurrentMemberAssignmentKey("modern-group", "Gx60lmlARTqPmP7L+iR3dg"),
        ConsumerGroupCurrentMemberAssignmentValue(
            2,
            2,
            1,
            [TopicPartitions(ORDERS, [0, 1, 2], [2, 2, 2]), TopicPartitions(PAYMENTS, [1], [2])],
            [TopicPartitions(PAYMENTS, [0], [2])],
        ),
    ),
    "the topics of a regular expression": (
        "0010000c6d6f6465726e2d67726f75700008285e7061792e2a29",
        "000002097061796d656e747300000000000000f9000001a1ff6fd02500",
        ConsumerGroupRegularExpressionKey("modern-group", "(^pay.*)"),
        ConsumerGroupRegularExpressionValue(["payments"], 249, 1795286880293),
    ),
}
"""Keys and values of records that Apache Kafka 4.3.1 wrote to `__consumer_offsets`, and their meaning.

The record with the partitions of a group was written by Kafka's classes, because its brokers no longer write it."""


@pytest.mark.parametrize("name", FROM_APACHE_KAFKA)
def test_records_are_read_and_written_as_apache_kafka_does(name: str) -> None:
    key_hex, value_hex, key, value = FROM_APACHE_KAFKA[name]
    record = GroupRecord(key, value)
    assert decode_record(bytes.fromhex(key_hex), bytes.fromhex(value_hex)) == record
    assert encode_record(record) == (bytes.fromhex(key_hex), bytes.fromhex(value_hex))


@pytest.mark.parametrize("name", FROM_APACHE_KAFKA)
def test_a_tombstone_has_a_key_alone(name: str) -> None:
    key_hex, _, key, _ = FROM_APACHE_KAFKA[name]
    assert encode_record(GroupRecord(key, None)) == (bytes.fromhex(key_hex), None)
    assert decode_record(memoryview(bytes.fromhex(key_hex)), None) == GroupRecord(key, None)


def test_older_values_are_read() -> None:
    key = bytes.fromhex("0001000167000174 00000001")
    value = bytes.fromhex("0000 0000000000000005 00016d 0000000000000007")
    assert decode_record(key, value) == GroupRecord(OffsetCommitKey("g", "t", 1), OffsetCommitValue(5, -1, "m", 7))


@pytest.mark.parametrize("record_type", [0, 9, 10, 17, 300])
def test_other_kinds_are_passed_over(record_type: int) -> None:
    assert decode_record(record_type.to_bytes(2) + b"\x00\x01g", b"whatever") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"", b""),
        (b"\x00", None),
        (bytes.fromhex("0002 0005 67"), None),
        (bytes.fromhex("0002 0001 67"), b""),
        (bytes.fromhex("0002 0001 67"), b"\x00"),
        (bytes.fromhex("0002 0001 67"), bytes.fromhex("0005 0000")),
        (bytes.fromhex("0003 0001 67"), bytes.fromhex("ffff 00000001 00")),
        (bytes.fromhex("0003 0001 67"), bytes.fromhex("0000 0000")),
    ],
)
def test_a_malformed_record_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(KafkaError) as refused:
        decode_record(key, value)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@given(st.integers(0, 17), st.binary(max_size=40), st.none() | st.binary(max_size=40))
def test_anything_is_read_or_refused(record_type: int, key: bytes, value: bytes | None) -> None:
    try:
        decode_record(record_type.to_bytes(2) + key, value)
    except KafkaError as error:
        assert error.code is ErrorCode.CORRUPT_MESSAGE
