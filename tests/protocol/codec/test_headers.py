from collections.abc import Mapping
from random import Random

import pytest
from message_samples import sample

from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.codec.compile import decode, encode, encode_whole
from tailrace.protocol.codec.headers import (
    RequestHeader,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
    read_request_kind,
    response_header,
    response_with_body,
)
from tailrace.protocol.error_codes import ErrorCode, RemoteProtocolError
from tailrace.protocol.internal_apis import SC_OBJECT_APIS, SC_PRIVATE_APIS, SPU_PRIVATE_APIS
from tailrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from tailrace.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tailrace.protocol.messages.metadata import MetadataResponse

INTERNAL_TABLES = (SC_PRIVATE_APIS, SPU_PRIVATE_APIS, SC_OBJECT_APIS)


def frame_of(parts: list[object]) -> memoryview:
    data = b"".join(parts)  # type: ignore[arg-type]
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    return memoryview(data)[4:]


EVERY_API = [(api, table) for table in (API_TABLE, *INTERNAL_TABLES) for api in table.values()]


@pytest.mark.parametrize(("api", "table"), EVERY_API, ids=[api.name for api, _ in EVERY_API])
def test_requests_and_responses_of_every_version_round_trip(api: Api, table: Mapping[int, Api]) -> None:
    random = Random(api.name)
    for version in range(api.min_version, api.max_version + 1):
        header = RequestHeader(api.key, version, correlation_id=-7, client_id="clíent")
        request = sample(api.request, version, random)
        frame = frame_of(encode_request(header, request, table))
        *decoded, position = read_request_header(frame, 0, table)
        assert RequestHeader(*decoded) == header
        assert decode(api.request, version, frame, position) == request

        response = sample(api.response, version, random)
        if isinstance(response, ApiVersionsResponse):
            response.error_code = 0
        frame = frame_of(encode_response(api.key, version, 12345, response, table))
        assert decode_response(api.key, version, frame, table) == (12345, response)


def test_headers_byte_by_byte() -> None:
    classic = bytes.fromhex("0003 0004 00000009 0003 616263")
    assert read_request_header(memoryview(classic + b"body")) == (ApiKey.METADATA, 4, 9, "abc", 13)
    anonymous = bytes.fromhex("0003 0004 00000009 ffff")
    assert read_request_header(memoryview(anonymous)) == (ApiKey.METADATA, 4, 9, None, 10)
    flexible = bytes.fromhex("0003 0009 00000009 0003 616263 01 05 02 7878")
    assert read_request_header(memoryview(flexible)) == (ApiKey.METADATA, 9, 9, "abc", len(flexible))

    assert response_header(ApiKey.METADATA, 8, 258) == bytes.fromhex("00000102")
    assert response_header(ApiKey.METADATA, 9, 258) == bytes.fromhex("00000102 00")


def test_the_response_header_of_api_versions_is_always_the_oldest() -> None:
    for version in range(5):
        assert response_header(ApiKey.API_VERSIONS, version, 1) == bytes.fromhex("00000001")
        frame = frame_of(encode_response(ApiKey.API_VERSIONS, version, 1, ApiVersionsResponse()))
        assert frame[:6] == bytes.fromhex("00000001 0000")


def test_text_that_is_not_utf_8_is_read_as_far_as_possible() -> None:
    """Clients in some languages send any bytes as text, and Apache Kafka serves them."""
    *_, client_id, _ = read_request_header(memoryview(bytes.fromhex("0003 0004 00000001 0004 636166e9")))
    assert client_id == "caf\N{REPLACEMENT CHARACTER}"


def test_api_versions_of_an_unknown_version_can_be_read_and_answered() -> None:
    unknown = bytes.fromhex("0012 7fff 0000002a 0002 6d65") + b"\xff" * 30
    *_, correlation_id, client_id, position = read_request_header(memoryview(unknown))
    assert (correlation_id, client_id, position) == (42, "me", 12)

    answer = encode_response(ApiKey.API_VERSIONS, 0, 42, ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    correlation_id, response = decode_response(ApiKey.API_VERSIONS, 4, frame_of(answer))
    assert (correlation_id, response.error_code) == (42, 35)


@pytest.mark.parametrize(
    ("what", "header"),
    [
        ("nothing", ""),
        ("half of it", "0003 0004 0000"),
        ("unknown API", "7fff 0000 00000001 ffff"),
        ("negative API", "ffff 0000 00000001 ffff"),
        ("API that we do not serve", "0004 0000 00000001 ffff"),
        ("client id longer than the request", "0003 0004 00000001 0009 6162"),
        ("tags missing", "0003 0009 00000001 0001 61"),
        ("tag longer than the request", "0003 0009 00000001 0001 61 01 00 7f"),
        ("tag count without end", "0003 0009 00000001 0001 61 ffffffffff7f"),
    ],
)
def test_malformed_request_header_is_refused(what: str, header: str) -> None:
    with pytest.raises(RemoteProtocolError):
        read_request_header(memoryview(bytes.fromhex(header)))


@pytest.mark.parametrize("frame", ["", "000000", "00000001", "00000001 ff", "00000001 01 00 7f"])
def test_malformed_response_is_refused(frame: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_response(ApiKey.METADATA, 9, bytes.fromhex(frame))


def test_the_size_counts_records_that_are_not_bytes() -> None:
    class FileRange:
        def __len__(self) -> int:
            return 1_000_000

    records = FileRange()
    response = FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(records=records)])])
    parts = encode_response(ApiKey.FETCH, 12, 1, response)
    assert records in parts
    head = parts[0]
    assert isinstance(head, bytes)
    assert int.from_bytes(head[:4], "big") == sum(len(part) for part in parts) - 4


def test_a_small_response_is_one_part_and_a_large_one_is_not_copied() -> None:
    assert len(encode_response(ApiKey.METADATA, 9, 1, MetadataResponse(cluster_id="x"))) == 1
    assert len(encode_response(ApiKey.METADATA, 9, 1, MetadataResponse(cluster_id="x" * 30_000))) == 1
    request = ApiVersionsRequest("name", "1")
    assert len(encode_request(RequestHeader(ApiKey.API_VERSIONS, 3, 1), request)) == 1
    large = FetchResponse(responses=[FetchableTopicResponse("t" * 30_000) for _ in range(3)])
    assert [len(part) for part in encode_response(ApiKey.FETCH, 12, 1, large)] == [9, len(encode(large, 12)[0])]


def test_the_kind_of_a_request_is_the_beginning_of_its_header() -> None:
    frame = frame_of(encode_request(RequestHeader(ApiKey.API_VERSIONS, 4, 77, "c"), ApiVersionsRequest()))
    assert read_request_kind(frame) == (ApiKey.API_VERSIONS, 4, 77)
    with pytest.raises(RemoteProtocolError):
        read_request_kind(frame[:7])


@pytest.mark.parametrize("version", range(2, 8))
def test_an_encoded_body_gets_the_header_of_its_version(version: int) -> None:
    message = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_message=None)])
    response = response_with_body(API_TABLE[ApiKey.CREATE_TOPICS], version, 7, encode_whole(message, version))
    assert [response] == encode_response(ApiKey.CREATE_TOPICS, version, 7, message)
