"""DeleteObject, version 0: deletes an SPU, an SPU group, a topic, or a deleted topic for good.

The partitions of a topic count against the quota of its client on changes.

Only custom SPUs are deleted. The SPUs of a group are deleted with it. SPUs that hold replicas or shelves are deleted
only by force.
"""

from tailrace.controller.administration.object_planning import find_topic
from tailrace.controller.handlers import ObjectHost
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.delete_object import DeleteObjectRequest, DeleteObjectResponse
from tailrace.server.request_context import RequestContext
from tailrace.server.throttling.counted_mutations import CountedMutations


async def handle(host: ObjectHost, context: RequestContext, request: DeleteObjectRequest) -> DeleteObjectResponse:
    mutations, partitions = CountedMutations(context.mutations), 0
    try:
        if context.mutations is not None and request.kind == "topic":
            wanted = find_topic(request.name, host.local).spec.partitions
            mutations.take(wanted)
            partitions = wanted
        await host.objects.delete(request.kind, request.name, force=request.force)
    except KafkaError as error:
        mutations.give_back(partitions, error)
        return DeleteObjectResponse(error_code=error.code, error_message=error.message)
    return DeleteObjectResponse()
