"""CreateObject, version 0: stores an object and, if asked, waits until it does what it says.

A topic for which there are too few SPUs is created all the same, and waits for them; by Kafka's CreateTopics it is not.
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
