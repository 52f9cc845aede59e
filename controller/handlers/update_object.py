"""UpdateObject, version 0: replaces the spec of a custom SPU or an SPU group.

Fields that the document does not have get their defaults. Topics are altered by Kafka's own requests.
"""

from tailrace.controller.administration.object_planning import write_document
from tailrace.controller.handlers import ObjectHost
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.update_object import UpdateObjectRequest, UpdateObjectResponse
from tailrace.server.request_context import RequestContext


async def handle(host: ObjectHost, context: RequestContext, request: UpdateObjectRequest) -> UpdateObjectResponse:
    try:
        updated = await host.objects.update(request.kind, request.document)
    except KafkaError as error:
        return UpdateObjectResponse(error_code=error.code, error_message=error.message)
    return UpdateObjectResponse(document=write_document(updated))
