"""UndeleteTopic, version 0: brings a deleted topic back, with its id, its replicas and what they kept."""

from tailrace.controller.object_administration import ObjectAdministration
from tailrace.controller.object_planning import write_document
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.undelete_topic import UndeleteTopicRequest, UndeleteTopicResponse
from tailrace.server.request_context import RequestContext


async def handle(
    objects: ObjectAdministration, context: RequestContext, request: UndeleteTopicRequest
) -> UndeleteTopicResponse:
    try:
        topic = await objects.undelete(request.name_or_id)
    except KafkaError as error:
        return UndeleteTopicResponse(error_code=error.code, error_message=error.message)
    return UndeleteTopicResponse(document=write_document(topic))
