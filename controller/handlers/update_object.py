"""UpdateObject, version 0: another spec for a custom SPU or an SPU group that there is.

What it does not say is what it is by default. Topics are altered by Kafka's own requests.
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
