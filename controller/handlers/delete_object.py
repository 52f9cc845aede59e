"""DeleteObject, version 0: deletes an SPU, an SPU group, a topic, or a deleted topic for good.

Only custom SPUs are deleted. The SPUs of a group are deleted with it. SPUs that hold replicas or shelves are deleted
only by force.
"""

from tailrace.controller.handlers import ObjectHost
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.delete_object import DeleteObjectRequest, DeleteObjectResponse
from tailrace.server.request_context import RequestContext


async def handle(host: ObjectHost, context: RequestContext, request: DeleteObjectRequest) -> DeleteObjectResponse:
    try:
        await host.objects.delete(request.kind, request.name, force=request.force)
    except KafkaError as error:
        return DeleteObjectResponse(error_code=error.code, error_message=error.message)
    return DeleteObjectResponse()
