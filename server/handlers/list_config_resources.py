"""ListConfigResources, versions 0–1: the resources that have configs, or may have some.

- These are the topics, the online SPUs (each with its configs and with its log), and the groups that set configs,
  whether such a group exists or not.
- Version 0 lists client metrics only, and there are none. From version 1 on, no type means every type. A type that
  has no configs in Kafka either is UNSUPPORTED_VERSION.
"""

from collections.abc import Callable, Iterable, Mapping

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.config_changes import ResourceKind
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tailrace.server.host import Host
from tailrace.server.request_context import RequestContext

TYPES_FROM = 1


def handle(host: Host, context: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    if context.api_version < TYPES_FROM:
        return ListConfigResourcesResponse()
    kinds = dict.fromkeys(request.resource_types) or _NAMES
    if not kinds.keys() <= _NAMES.keys():
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    resources = [
        ConfigResource(resource_name=name, resource_type=kind) for kind in kinds for name in _NAMES[kind](host.cluster)
    ]
    return ListConfigResourcesResponse(config_resources=resources)


def _spus(cluster: Cluster) -> Iterable[str]:
    return [str(spu.id) for spu in cluster.spus.values() if spu.online]


_NAMES: Mapping[int, Callable[[Cluster], Iterable[str]]] = {
    ResourceKind.TOPIC: lambda cluster: cluster.topics,
    ResourceKind.BROKER: _spus,
    ResourceKind.BROKER_LOGGER: _spus,
    ResourceKind.CLIENT_METRICS: lambda cluster: (),
    ResourceKind.GROUP: lambda cluster: cluster.group_configs,
}
