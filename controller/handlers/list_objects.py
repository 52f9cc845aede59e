"""ListObjects, version 0: lists the objects of a kind, all or by name, as JSON documents.

A partition can be named `topic/number` or by its topic, and a deleted topic by its id or its name. Connections and
controllers are listed in the same way, although they are not objects. A connection has the name of its SPU, and a
controller has the name of the kind that it decides about. The status of a trigger also has its replicas with their
newest reports, which are not a part of the object in the store. Triggers that people run by hand are listed under a
kind of their own: they have only reports.
"""

import json
from collections.abc import Mapping

from tailrace.controller.administration.object_planning import write_document
from tailrace.controller.connections import connection_documents
from tailrace.controller.connections.connection_documents import connection_document
from tailrace.controller.handlers import ObjectHost
from tailrace.controller.inspection import controller_documents
from tailrace.controller.inspection.controller_documents import controller_document
from tailrace.controller.objects.objects import Trigger
from tailrace.controller.objects.spu_documents import Document
from tailrace.controller.objects.trigger_documents import RUN_BY_HAND
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.list_objects import ListedObject, ListObjectsRequest, ListObjectsResponse
from tailrace.server.request_context import RequestContext

TRIGGER = "trigger"


def handle(host: ObjectHost, context: RequestContext, request: ListObjectsRequest) -> ListObjectsResponse:
    if request.kind == connection_documents.KIND:
        streams = {str(row.spu): connection_document(row) for row in host.connections()}
        return ListObjectsResponse(objects=_those_named(streams, request.names))
    if request.kind == controller_documents.KIND:
        controllers = {row.decides_about: controller_document(row) for row in host.controllers()}
        return ListObjectsResponse(objects=_those_named(controllers, request.names))
    if request.kind == RUN_BY_HAND:
        return ListObjectsResponse(objects=list(map(_listed, host.trigger_requests().run_by_hand(request.names))))
    try:
        found = host.objects.list(request.kind, request.names)
    except KafkaError as error:
        return ListObjectsResponse(error_code=error.code, error_message=error.message)
    if request.kind == TRIGGER:
        documents = [
            host.trigger_requests().document_of_trigger(each) for _, each in found if isinstance(each, Trigger)
        ]
        return ListObjectsResponse(objects=list(map(_listed, documents)))
    return ListObjectsResponse(objects=[ListedObject(name, write_document(each)) for name, each in found])


def _listed(document: Document) -> ListedObject:
    return ListedObject(str(document["name"]), json.dumps(document, ensure_ascii=False))


def _those_named(documents: Mapping[str, dict[str, object]], names: list[str] | None) -> list[ListedObject]:
    """Returns the named documents, or all for None. Unknown names are ignored: an SPU may have no connection now."""
    return [ListedObject(name, json.dumps(each)) for name, each in documents.items() if names is None or name in names]
