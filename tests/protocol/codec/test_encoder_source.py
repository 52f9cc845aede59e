from itertools import product

import pytest

from tailrace.protocol.codec.compile import decode, encode
from tailrace.protocol.codec.encoder_source import encoder_source
from tailrace.protocol.codec.message_layout import message_layout
from tailrace.protocol.group_records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from tailrace.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
    SnapshotId,
)
from tailrace.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse


def encoded(message: object, version: int) -> bytes:
    return b"".join(encode(message, version))  # type: ignore[arg-type]


def test_a_produce_response_byte_by_byte() -> None:
    partition = PartitionProduceResponse(
        index=1, error_code=2, base_offset=3, log_append_time_ms=-1, log_start_offset=4
    )
    response = ProduceResponse(
        responses=[TopicProduceResponse("ab", partition_responses=[partition])], throttle_time_ms=5
    )
    numbers = "00000001 0002 0000000000000003 ffffffffffffffff 0000000000000004"
    assert encoded(response, 7) == bytes.fromhex(f"00000001 0002 6162 00000001 {numbers} 00000005")
    assert encoded(response, 8) == bytes.fromhex(f"00000001 0002 6162 00000001 {numbers} 00000000 ffff 00000005")
    assert encoded(response, 9) == bytes.fromhex(f"02 03 6162 02 {numbers} 01 00 00 00 00000005 00")


@pytest.mark.parametrize("version", [4, 11, 12])
def test_every_mixture_of_empty_and_present_optional_fields(version: int) -> None:
    flexible = version >= 12
    partitions = [
        PartitionData(aborted_transactions=aborted, diverging_epoch=diverging, snapshot_id=snapshot, records=records)
        for aborted, diverging, snapshot, records in product(
            (None, [], [AbortedTransaction(1, 2)]),
            (None, EpochEndOffset(3, 4)) if flexible else (None,),
            (None, SnapshotId(5, 6)) if flexible else (None,),
            (None, b"", b"records"),
        )
    ]
    response = FetchResponse(responses=[FetchableTopicResponse("t", partitions=partitions)])
    assert decode(FetchResponse, version, encoded(response, version)) == response


@pytest.mark.parametrize(
    ("classic", "tagged"),
    [(None, "01 00 01 00"), (ClassicMemberMetadata(5, []), "01 00 07 01 00000005 01 00")],
)
def test_a_tagged_struct_that_may_be_null_is_always_sent(classic: ClassicMemberMetadata | None, tagged: str) -> None:
    member = ConsumerGroupMemberMetadataValue(classic_member_metadata=classic)
    data = encoded(member, 0)
    assert data == bytes.fromhex(f"00 00 01 01 01 00 ffffffff 00 {tagged}")
    assert decode(ConsumerGroupMemberMetadataValue, 0, data) == member


def test_a_partition_without_anything_optional_is_one_piece() -> None:
    lines = encoder_source(message_layout(ProduceResponse, 9)).text().splitlines()
    usual = next(number for number, line in enumerate(lines) if ".record_errors and not " in line)
    assert lines[usual + 1].lstrip().startswith("write(pack")
    assert lines[usual + 2].strip() == "else:"
