"""DescribeCluster, versions 0–2: the cluster's id, its controller, and the SPUs with the addresses for this client.

- Only the brokers can be asked for (endpoint type 1): clients of controllers are told that this is none.
- An SPU that is away is what v2 calls fenced: it is listed for those alone who ask for such ones.
"""

import math

from tailrace.cluster.client_view import CLUSTER_OPERATIONS, NOBODY, OPERATIONS_UNKNOWN, brokers, online_spus
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
    there = online_spus(host.cluster) | {host.id}
    return DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=host.cluster.cluster_id,
        controller_id=host.cluster.controller_id,
        brokers=[
            DescribeClusterBroker(*broker, is_fenced=broker.id not in there)
            for broker in brokers(host.cluster, host.id, context.listener, lost_since=lost_since)
        ],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else OPERATIONS_UNKNOWN
        ),
    )


def _refused(code: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=message, endpoint_type=BROKERS, controller_id=NOBODY)
