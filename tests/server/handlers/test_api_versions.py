"""ApiVersions on a whole SPU: the table, an unknown version, and the client's name in the metrics."""

from hosts import ControllerHost, request_of
from spus import newest, running_spu

from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.codec.compile import decode
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tailrace.server.handlers import api_versions

NAMED = ApiVersionsRequest(client_software_name="some-client", client_software_version="1.2")


async def test_the_hosts_table_is_listed(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        for version in range(newest(ApiKey.API_VERSIONS) + 1):
            response = await client.request(ApiKey.API_VERSIONS, version, NAMED)
            assert response.error_code == 0
            assert {each.api_key: (each.min_version, each.max_version) for each in response.api_keys} == {
                api.key: (api.min_version_advertised, api.max_version) for api in API_TABLE.values()
            }


async def test_feature_levels_tell_what_the_cluster_can_do(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        for version in range(newest(ApiKey.API_VERSIONS) + 1):
            response = await client.request(ApiKey.API_VERSIONS, version, NAMED)
            supported = [(each.name, each.min_version, each.max_version) for each in response.supported_features]
            finalized = [(each.name, each.max_version_level) for each in response.finalized_features]
            assert supported == ([("group.version", 0, 1), ("transaction.version", 0, 2)] if version >= 4 else [])
            assert finalized == ([("group.version", 1), ("transaction.version", 2)] if version >= 3 else [])


async def test_an_unknown_version_gets_a_response_in_version_0(autojump_clock: object) -> None:
    async with running_spu() as running:
        client = await running.client()
        await client.send(bytes.fromhex("0000000b 0012 7f00 00000009 0001 61"))
        frame = await client.frame()
        assert frame is not None
        assert frame[:4] == bytes.fromhex("00000009")
        response = decode(ApiVersionsResponse, 0, frame[4:])
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [each.api_key for each in response.api_keys] == [ApiKey.API_VERSIONS]
        known = await client.request(ApiKey.API_VERSIONS, response.api_keys[0].max_version, NAMED)
        assert known.error_code == 0, "the connection is still good"


async def test_the_clients_software_is_counted_by_its_name(autojump_clock: object) -> None:
    async with running_spu() as running:
        await (await running.client()).request(ApiKey.API_VERSIONS, 3, NAMED)
        assert (ApiKey.API_VERSIONS, 3, "some-client") in running.spu.metrics.server.requests


async def test_a_name_with_invalid_characters_is_refused(autojump_clock: object) -> None:
    async with running_spu() as running:
        named = ApiVersionsRequest(client_software_name='bad"name', client_software_version="1")
        response = await (await running.client()).request(ApiKey.API_VERSIONS, 3, named)
        assert response.error_code == ErrorCode.INVALID_REQUEST


def test_a_host_lists_its_own_apis() -> None:
    host = ControllerHost(apis={key: API_TABLE[key] for key in (ApiKey.API_VERSIONS, ApiKey.METADATA)})
    response = api_versions.handle(host, request_of(ApiKey.API_VERSIONS), NAMED)
    assert [each.api_key for each in response.api_keys] == [ApiKey.API_VERSIONS, ApiKey.METADATA]
