"""DescribeServer, version 0, not in Kafka: `tailrace doctor` asks for the clock, versions and limits of the SC."""

from tailrace.controller.handlers import ObjectHost
from tailrace.protocol.internal.describe_server import DescribeServerRequest, DescribeServerResponse
from tailrace.server.request_context import RequestContext


def handle(host: ObjectHost, context: RequestContext, request: DescribeServerRequest) -> DescribeServerResponse:
    return host.describe_server()
