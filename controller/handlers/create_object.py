"""CreateObject, version 0: creates an object and can wait until it has taken effect.

A topic for which there are too few SPUs is created all the same, and waits for them. Kafka's CreateTopics refuses it.
"""

from tailrace.controller.administration.object_planning import write_document
from tailrace.controller.handlers import ObjectHost
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.create_object import CreateObjectRequest, CreateObjectResponse
from tailrace.server.request_context import RequestContext


async def handle(host: ObjectHost, context: RequestContext, request: CreateObjectRequest) -> CreateObjectResponse:
    try:
        created = await host.objects.create(request.kind, request.document, request.timeout_ms)
    except KafkaError as error:
        return CreateObjectResponse(error_code=error.code, error_message=error.message)
    return CreateObjectResponse(document=write_document(created))
