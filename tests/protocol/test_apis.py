import subprocess
import sys

import pytest

from tailrace.protocol.apis import API_TABLE, Api, ApiKey, message_class, message_name
from tailrace.protocol.codec.compile import decode, encode
from tailrace.protocol.codec.fields import Versions
from tailrace.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse


@pytest.mark.parametrize("api", API_TABLE.values(), ids=lambda api: api.name)
def test_the_table_agrees_with_the_messages(api: Api) -> None:
    for message in (api.request, api.response):
        assert api.key == message.API_KEY
        flexible, versions = Versions.parse(message.FLEXIBLE), Versions.parse(message.VERSIONS)
        for version in range(versions.last + 1):
            assert api.is_flexible(version) == flexible.holds(version)
        assert versions.first == api.min_version
        assert versions.last >= api.max_version
    assert API_TABLE[api.key] is api
    assert 0 <= api.min_version_advertised <= api.min_version <= api.max_version


def test_an_api_serves_the_versions_in_the_table() -> None:
    produce = API_TABLE[ApiKey.PRODUCE]
    assert [version for version in range(-1, 16) if produce.serves(version)] == list(range(3, 14))
    assert not produce.is_flexible(8)
    assert produce.is_flexible(9)


def test_api_versions_carries_the_table_in_every_version() -> None:
    advertised = [
        ApiVersion(api_key=api.key, min_version=api.min_version_advertised, max_version=api.max_version)
        for api in API_TABLE.values()
    ]
    for version in range(5):
        data = b"".join(encode(ApiVersionsResponse(api_keys=advertised), version))  # type: ignore[arg-type]
        seen = {
            (api.api_key, api.min_version, api.max_version)
            for api in decode(ApiVersionsResponse, version, data).api_keys
        }
        assert seen >= {(0, 0, 13), (1, 4, 18), (18, 0, 4), (22, 0, 5)}
        assert len(seen) == len(API_TABLE)


def test_messages_are_found_by_the_name_of_their_api() -> None:
    assert message_name(ApiKey.OFFSET_FOR_LEADER_EPOCH) == "OffsetForLeaderEpoch"
    assert message_class(ApiKey.JOIN_GROUP, "Request").__name__ == "JoinGroupRequest"


def test_the_table_alone_imports_no_message() -> None:
    look = "import sys, tailrace.protocol.apis; print([name for name in sys.modules if '.messages.' in name])"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, check=True, text=True).stdout == "[]\n"
