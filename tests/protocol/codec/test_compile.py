from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from message_samples import all_messages, sample, versions_of

from tailrace.protocol.codec.compile import decode, decoder, encode, encoder
from tailrace.protocol.codec.decoder_source import STRING_BYTES_MAX
from tailrace.protocol.error_codes import ErrorCode, RemoteProtocolError
from tailrace.protocol.internal.create_object import CreateObjectRequest
from tailrace.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch, PartitionData
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)


def joined(parts: list[Any]) -> bytes:
    return b"".join(parts)


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_message_and_version_round_trips(cls: type[Any], seed: int) -> None:
    for version in versions_of(cls):
        message = sample(cls, version, Random(seed))
        data = joined(encode(message, version))
        decoded, position = decoder(cls, version)(memoryview(b"before" + data), 6)
        assert decoded == message
        assert position == 6 + len(data)


def test_records_pass_through_by_reference_in_both_directions() -> None:
    class FileRange:
        def __len__(self) -> int:
            return 200

    on_disk = FileRange()
    response = FetchResponse(
        responses=[
            FetchableTopicResponse("t", partitions=[PartitionData(0, records=on_disk), PartitionData(1, records=b"xy")])
        ]
    )
    parts = encode(response, 12)
    assert parts[1] is on_disk
    assert [len(part) for part in parts if part is on_disk or part == b"xy"] == [200, 2]

    request = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, b"records")])])
    received = memoryview(bytearray(joined(encode(request, 9))))
    records = decode(ProduceRequest, 9, received).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records == b"records"
    assert records.obj is received.obj
    records[0:1] = b"R"
    assert b"Records" in bytes(received)


def test_a_small_response_is_one_part() -> None:
    response = ProduceResponse(responses=[TopicProduceResponse("t", partition_responses=[PartitionProduceResponse(0)])])
    for version in versions_of(ProduceResponse):
        assert len(encode(response, version)) == 1
    assert len(encode(FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData()])]), 12)) == 1


def test_an_error_code_goes_into_a_message_as_it_is() -> None:
    response = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert decode(FetchResponse, 12, joined(encode(response, 12))).error_code == 70


def test_bytes_after_the_message_are_ignored() -> None:
    data = joined(encode(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9))
    assert decode(MetadataRequest, 9, data + b"more").topics == [MetadataRequestTopic(name="t")]


def test_unknown_tagged_fields_are_skipped() -> None:
    data = joined(encode(MetadataRequest(topics=None), 9))
    assert data[-1:] == b"\0"
    with_tags = data[:-1] + b"\x02" + b"\x07\x03abc" + b"\xff\x01\x00"
    assert decode(MetadataRequest, 9, with_tags).topics is None


def test_a_tagged_struct_may_be_absent() -> None:
    leader = LeaderIdAndEpoch(leader_id=3, leader_epoch=7)
    for current_leader in (None, leader):
        response = FetchResponse(
            responses=[FetchableTopicResponse("t", partitions=[PartitionData(current_leader=current_leader)])]
        )
        decoded = decode(FetchResponse, 12, joined(encode(response, 12)))
        assert decoded.responses[0].partitions[0].current_leader == current_leader


def test_a_version_that_the_schema_lacks_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="4-18"):
        encoder(FetchResponse, 3)


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("array of 2**31-1 topics", b"\x7f\xff\xff\xff"),
        ("array of more topics than bytes", b"\x00\x00\x00\x02" + b"\x00\x01a"),
        ("name of negative length", b"\x00\x00\x00\x01\xff\xff" + bytes(8)),
        ("name longer than the message", b"\x00\x00\x00\x01\x7f\xff" + bytes(8)),
        ("nothing", b""),
    ],
)
def test_malformed_metadata_request_is_refused(what: str, data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(MetadataRequest, 4, data)


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("null where an array must be", b"\x00\x00" + b"\x00\x01" + bytes(4) + b"\x00"),
        ("overlong length", b"\xff\xff\xff\xff\xff\x01" + bytes(20)),
        ("length of 35 bits", b"\xff\xff\xff\xff\x7f" + bytes(20)),
        ("tagged field longer than the message", b"\x00" + b"\x00\x01" + bytes(4) + b"\x01" + b"\x01\x00\x7f"),
        ("more tagged fields than bytes", b"\x00" + b"\x00\x01" + bytes(4) + b"\x01" + b"\xff\xff\xff\xff\x0f\x00\x00"),
    ],
)
def test_malformed_flexible_produce_request_is_refused(what: str, data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(ProduceRequest, 9, data)


def test_a_tagged_field_of_the_wrong_size_is_refused() -> None:
    partition = PartitionData(current_leader=LeaderIdAndEpoch(1, 2))
    data = joined(encode(FetchResponse(responses=[FetchableTopicResponse("t", partitions=[partition])]), 12))
    place = data.index(b"\x01\x01\x09\x00\x00\x00\x01")
    with pytest.raises(RemoteProtocolError, match="another size"):
        decode(FetchResponse, 12, data[: place + 2] + b"\x0a" + data[place + 3 :] + b"\0")


def test_a_clients_strings_must_fit_every_version() -> None:
    longest = "g" * STRING_BYTES_MAX
    request = MetadataRequest(topics=[MetadataRequestTopic(name=longest)])
    assert decode(MetadataRequest, 12, joined(encode(request, 12))) == request
    request.topics = [MetadataRequestTopic(name=longest + "g")]
    with pytest.raises(RemoteProtocolError, match="a string of more than 32767 bytes"):
        decode(MetadataRequest, 12, joined(encode(request, 12)))


def test_our_own_programs_may_send_longer_strings() -> None:
    request = CreateObjectRequest("topic", "x" * (STRING_BYTES_MAX + 1), 0)
    assert decode(CreateObjectRequest, 0, joined(encode(request, 0))) == request


def test_text_that_is_not_utf_8_is_read_as_far_as_possible() -> None:
    request = decode(MetadataRequest, 4, b"\x00\x00\x00\x01\x00\x02a\xff\x01")
    assert [topic.name for topic in request.topics or ()] == ["a\N{REPLACEMENT CHARACTER}"]
