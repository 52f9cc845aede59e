"""DescribeSpu, version 0, ours: the command line asks which controllers there are. It is always answered."""

from tailrace.broker.descriptions.spu_description import describe_spu
from tailrace.protocol.internal.describe_spu import DescribeSpuRequest, DescribeSpuResponse
from tailrace.server.request_context import RequestContext

from .store_host import PeersHost


def handle(host: PeersHost, context: RequestContext, request: DescribeSpuRequest) -> DescribeSpuResponse:
    return describe_spu(host.data_directory, host.replicas, host.peers)
