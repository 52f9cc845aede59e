"""DescribeSpu, version 0, not in Kafka: the command line asks which SPUs this one follows, and which ones follow it."""

from tailrace.broker.descriptions.spu_description import describe_spu
from tailrace.protocol.internal.describe_spu import DescribeSpuRequest, DescribeSpuResponse
from tailrace.server.request_context import RequestContext

from .store_host import PeersHost


def handle(host: PeersHost, context: RequestContext, request: DescribeSpuRequest) -> DescribeSpuResponse:
    return describe_spu(host.data_directory, host.replicas, host.peers)
