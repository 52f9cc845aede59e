"""ListObjects, version 0: the objects of a kind, all or by name, as documents in JSON.

A partition answers to `topic/number` and to its topic's name, a deleted topic to its id and its name. Connections and
controllers are listed in the same way, though they are no objects: the one is called as its SPU, the other as what it
decides about.
"""

import json
from collections.abc import Mapping

from tailrace.controller.administration.object_planning import write_document
from tailrace.controller.connections import connection_documents
from tailrace.controller.connections.connection_documents import connection_document
from tailrace.controller.handlers import ObjectHost
from tailrace.controller.inspection import controller_documents
from tailrace.controller.inspection.controller_documents import controller_document
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.list_objects import ListedObject, ListObjectsRequest, ListObjectsResponse
from tailrace.server.request_context import RequestContext


def handle(host: ObjectHost, context: RequestContext, request: ListObjectsRequest) -> ListObjectsResponse:
    if request.kind == connection_documents.KIND:
        streams = {str(row.spu): connection_document(row) for row in host.connections()}
        return ListObjectsResponse(objects=_those_named(streams, request.names))
    if request.kind == controller_documents.KIND:
        controllers = {row.decides_about: controller_document(row) for row in host.controllers()}
        return ListObjectsResponse(objects=_those_named(controllers, request.names))
    try:
        found = host.objects.list(request.kind, request.names)
    except KafkaError as error:
        return ListObjectsResponse(error_code=error.code, error_message=error.message)
    return ListObjectsResponse(objects=[ListedObject(name, write_document(each)) for name, each in found])


def _those_named(documents: Mapping[str, dict[str, object]], names: list[str] | None) -> list[ListedObject]:
    """Or all; one that is not there is left out: an SPU may have no connection at the moment."""
    return [ListedObject(name, json.dumps(each)) for name, each in documents.items() if names is None or name in names]
