"""DescribeCluster, versions 0–2: the cluster's id, its controller, and the SPUs with their addresses for this client.

- Only brokers can be described (endpoint type 1). A client that asks for controllers learns that this is a broker's
  endpoint.
- v2 calls an offline SPU fenced. It is listed only if the client asks for fenced brokers.
"""

import math

from tailrace.cluster.client_view import (
    CLUSTER_OPERATIONS,
    OPERATIONS_UNKNOWN,
    brokers,
    controller_told,
    online_spus,
)
from tailrace.cluster.cluster import NO_CONTROLLER
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from tailrace.server.host import Host
from tailrace.server.request_context import RequestContext

BROKERS = 1
CONTROLLERS = 2


def handle(host: Host, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        return _refused(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a broker's endpoint, not a controller's")
    if request.endpoint_type != BROKERS:
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there is no endpoint type {request.endpoint_type}")
    lost_since = -math.inf if request.include_fenced_brokers else math.inf
    online = online_spus(host.cluster) | {host.id}
    named = brokers(host.cluster, host.id, context.listener, lost_since=lost_since)
    return DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=host.cluster.cluster_id,
        controller_id=controller_told(host.cluster, named),
        brokers=[DescribeClusterBroker(*broker, is_fenced=broker.id not in online) for broker in named],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else OPERATIONS_UNKNOWN
        ),
    )


def _refused(code: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=code, error_message=message, endpoint_type=BROKERS, controller_id=NO_CONTROLLER
    )
