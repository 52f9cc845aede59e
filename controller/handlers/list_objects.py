"""ListObjects, version 0: the objects of a kind, all or by name, as documents in JSON.

A partition answers to `topic/number` and to its topic's name, a deleted topic to its id and its name.
"""

from tailrace.controller.handlers import ObjectHost
from tailrace.controller.object_planning import write_document
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.list_objects import ListedObject, ListObjectsRequest, ListObjectsResponse
from tailrace.server.request_context import RequestContext


def handle(host: ObjectHost, context: RequestContext, request: ListObjectsRequest) -> ListObjectsResponse:
    try:
        found = host.objects.list(request.kind, request.names)
    except KafkaError as error:
        return ListObjectsResponse(error_code=error.code, error_message=error.message)
    return ListObjectsResponse(objects=[ListedObject(name, write_document(each)) for name, each in found])
