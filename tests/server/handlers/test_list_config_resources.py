"""ListConfigResources: the resources that have configs."""

import pytest
from hosts import ControllerHost, request_of

from tailrace.cluster.specs import SpuSpec, TopicSpec
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tailrace.server.handlers import list_config_resources

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def listed(version: int, *kinds: int) -> tuple[int, list[tuple[int, str]]]:
    host = ControllerHost()
    host.cluster.put_spu(SpuSpec(SpuId(1), online=True))
    host.cluster.put_spu(SpuSpec(SpuId(2), online=False))
    host.cluster.put_topic(TopicSpec(TopicId(int=1), "t", {}, ()))
    host.cluster.put_group_configs("g", {"consumer.session.timeout.ms": "50000"})
    context = request_of(ApiKey.LIST_CONFIG_RESOURCES)
    context.api_version = version
    response = list_config_resources.handle(host, context, ListConfigResourcesRequest(list(kinds)))
    return response.error_code, [(each.resource_type, each.resource_name) for each in response.config_resources]


def test_no_type_is_every_type() -> None:
    assert listed(1) == (0, [(TOPIC, "t"), (BROKER, "1"), (LOGGER, "1"), (GROUP, "g")])


@pytest.mark.parametrize(
    ("kinds", "found"),
    [([GROUP], [(GROUP, "g")]), ([CLIENT_METRICS], []), ([GROUP, GROUP, BROKER], [(GROUP, "g"), (BROKER, "1")])],
)
def test_types_select_resources(kinds: list[int], found: list[tuple[int, str]]) -> None:
    assert listed(1, *kinds) == (0, found)


def test_a_type_without_configs_is_refused() -> None:
    assert listed(1, GROUP, 99) == (ErrorCode.UNSUPPORTED_VERSION, [])


def test_version_0_knows_client_metrics_alone() -> None:
    assert listed(0) == (0, [])
