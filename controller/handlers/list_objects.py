"""ListObjects, version 0: the objects of a kind, all or by name, as documents in JSON.

A partition answers to `topic/number` and to its topic's name, a deleted topic to its id and its name. Connections are
listed in the same way, though they are no objects: what they are called is their SPU.
"""

import json

from tailrace.controller import connection_documents
from tailrace.controller.connection_documents import connection_document
from tailrace.controller.handlers import ObjectHost
from tailrace.controller.object_planning import write_document
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.list_objects import ListedObject, ListObjectsRequest, ListObjectsResponse
from tailrace.server.request_context import RequestContext


def handle(host: ObjectHost, context: RequestContext, request: ListObjectsRequest) -> ListObjectsResponse:
    if request.kind == connection_documents.KIND:
        return ListObjectsResponse(objects=_connections(host, request.names))
    try:
        found = host.objects.list(request.kind, request.names)
    except KafkaError as error:
        return ListObjectsResponse(error_code=error.code, error_message=error.message)
    return ListObjectsResponse(objects=[ListedObject(name, write_document(each)) for name, each in found])


def _connections(host: ObjectHost, names: list[str] | None) -> list[ListedObject]:
    """Of the SPUs that are named, or all; one that is not connected has none."""
    documents = {str(row.spu): connection_document(row) for row in host.connections()}
    return [ListedObject(name, json.dumps(each)) for name, each in documents.items() if names is None or name in names]
