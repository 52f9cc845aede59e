"""DescribeSpu, version 0, ours: the command line asks which controllers there are. It is always answered."""

from typing import TYPE_CHECKING

from tailrace.broker.descriptions.spu_description import describe_spu
from tailrace.protocol.internal.describe_spu import DescribeSpuRequest, DescribeSpuResponse
from tailrace.server.request_context import RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


def handle(spu: "Spu", context: RequestContext, request: DescribeSpuRequest) -> DescribeSpuResponse:
    return describe_spu(spu.data_directory, spu.replicas, spu.peers)
