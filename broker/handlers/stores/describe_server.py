"""DescribeServer, version 0, not in Kafka: `tailrace doctor` asks for the clock, versions and limits of an SPU."""

from tailrace.protocol.internal.describe_server import DescribeServerRequest, DescribeServerResponse
from tailrace.server.request_context import RequestContext
from tailrace.server.server_description import describe_server

from .store_host import MachineHost


def handle(host: MachineHost, context: RequestContext, request: DescribeServerRequest) -> DescribeServerResponse:
    described = describe_server(
        host.id,
        host.cluster.cluster_id,
        host.listening,
        host.data_directory,
        host.files,
        host.wall_clock,
        [] if host.certificates is None else host.certificates.certificates(),
    )
    limit = host.storage_limit
    limit.measure()
    described.storage_used = limit.used_bytes
    if limit.size_bytes is not None:
        described.storage_max = limit.size_bytes
    return described
