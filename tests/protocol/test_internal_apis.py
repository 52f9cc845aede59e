import re
from pathlib import Path

import pytest

from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.codec.compile import decode, encode
from tailrace.protocol.codec.fields import Versions
from tailrace.protocol.codec.headers import decode_response, encode_response, read_request_header
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.ids import TopicId
from tailrace.protocol.internal.apply_metadata import ApplyMetadataRequest, PartitionState, TopicState
from tailrace.protocol.internal_apis import (
    INTERNAL_KEY_MIN,
    PEER_APIS,
    SC_OBJECT_APIS,
    SC_PRIVATE_APIS,
    SPU_OBJECT_APIS,
    SPU_PRIVATE_APIS,
    InternalApiKey,
    PeerApi,
)
from tailrace.protocol.messages.metadata import MetadataResponse

TABLES = (SC_PRIVATE_APIS, SPU_PRIVATE_APIS, SC_OBJECT_APIS, SPU_OBJECT_APIS)
EVERY_API = [api for table in TABLES for api in table.values()]


@pytest.mark.parametrize("api", EVERY_API, ids=lambda api: api.name)
def test_the_tables_agree_with_the_messages(api: Api) -> None:
    for message in (api.request, api.response):
        assert api.key == message.API_KEY
        assert Versions.parse(message.FLEXIBLE).first == api.flexible_from == api.flexible_response_from
        assert Versions.parse(message.VERSIONS) == (api.min_version, api.max_version)


@pytest.mark.parametrize("api", PEER_APIS.values(), ids=lambda api: api.name)
def test_the_table_of_peer_messages_agrees_with_the_messages(api: PeerApi) -> None:
    assert api.key == api.message.API_KEY
    assert Versions.parse(api.message.FLEXIBLE).first == 0
    assert Versions.parse(api.message.VERSIONS) == (api.min_version, api.max_version)


def test_every_api_has_one_direction_except_one_of_every_server_and_a_key_far_from_those_of_kafka() -> None:
    both = [InternalApiKey.DESCRIBE_SERVER]
    assert sorted([*(api.key for api in EVERY_API), *PEER_APIS]) == sorted([*InternalApiKey, *both])
    assert max(ApiKey) < min(InternalApiKey) == INTERNAL_KEY_MIN
    assert not any(API_TABLE.keys() & table.keys() for table in (*TABLES, PEER_APIS))


def test_a_request_in_the_wrong_direction_is_refused() -> None:
    apply_metadata = memoryview(bytes.fromhex("2743 0000 00000001 ffff 00"))
    assert read_request_header(apply_metadata, 0, SPU_PRIVATE_APIS)[0] == InternalApiKey.APPLY_METADATA
    for table in (SC_PRIVATE_APIS, SC_OBJECT_APIS, API_TABLE):
        with pytest.raises(RemoteProtocolError, match="10051"):
            read_request_header(apply_metadata, 0, table)


def test_kafka_apis_and_our_own_can_share_a_table() -> None:
    both = {**API_TABLE, **SC_OBJECT_APIS}
    answer = b"".join(encode_response(ApiKey.METADATA, 13, 5, MetadataResponse(cluster_id="x"), both))  # type: ignore[arg-type]
    assert decode_response(ApiKey.METADATA, 13, answer[4:], both)[1].cluster_id == "x"
    assert both[InternalApiKey.LIST_OBJECTS].request.__name__ == "ListObjectsRequest"


def test_a_cluster_of_many_partitions_is_not_refused_where_the_peer_is_trusted() -> None:
    """There are more elements than a client's request may have; a few partitions of many replicas have as many."""
    partitions = [PartitionState(number, 1, 0, list(range(100)), [1, 2, 3]) for number in range(10_000)]
    request = ApplyMetadataRequest(topics=[TopicState(TopicId(int=1), "t", partitions=partitions)])
    data = b"".join(encode(request, 0))  # type: ignore[arg-type]
    assert decode(ApplyMetadataRequest, 0, data, elements_max=len(data)) == request
    with pytest.raises(RemoteProtocolError, match="elements"):
        decode(ApplyMetadataRequest, 0, data)


def test_the_page_lists_every_message_under_its_sender() -> None:
    page = (Path(__file__).parents[2] / "docs" / "private_protocols.md").read_text()
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \|", page, re.MULTILINE)
    in_order = (SC_PRIVATE_APIS, SPU_PRIVATE_APIS, PEER_APIS, SC_OBJECT_APIS, SPU_OBJECT_APIS)
    assert rows == [(api.name, str(int(api.key)), str(api.max_version)) for table in in_order for api in table.values()]
