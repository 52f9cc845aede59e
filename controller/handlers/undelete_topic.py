"""UndeleteTopic, version 0: brings a deleted topic back, with its id and its records."""

from tailrace.controller.administration.object_planning import write_document
from tailrace.controller.handlers import ObjectHost
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.undelete_topic import UndeleteTopicRequest, UndeleteTopicResponse
from tailrace.server.request_context import RequestContext


async def handle(host: ObjectHost, context: RequestContext, request: UndeleteTopicRequest) -> UndeleteTopicResponse:
    try:
        topic = await host.objects.undelete(request.name_or_id)
    except KafkaError as error:
        return UndeleteTopicResponse(error_code=error.code, error_message=error.message)
    return UndeleteTopicResponse(document=write_document(topic))
