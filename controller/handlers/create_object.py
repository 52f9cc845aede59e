"""CreateObject, version 0: creates an object and can wait until it has taken effect.

The partitions of a topic count against the quota of its client on changes.

A topic for which there are too few SPUs is created all the same, and waits for them. Kafka's CreateTopics refuses it.
"""

from tailrace.controller.administration.object_planning import read_object, write_document
from tailrace.controller.handlers import ObjectHost
from tailrace.controller.objects.objects import Topic
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.create_object import CreateObjectRequest, CreateObjectResponse
from tailrace.server.request_context import RequestContext
from tailrace.server.throttling.counted_mutations import CountedMutations


async def handle(host: ObjectHost, context: RequestContext, request: CreateObjectRequest) -> CreateObjectResponse:
    mutations, partitions = CountedMutations(context.mutations), 0
    try:
        if context.mutations is not None:
            wanted = read_object(request.kind, request.document)
            if isinstance(wanted, Topic):
                mutations.take(wanted.spec.partitions)
                partitions = wanted.spec.partitions
        created = await host.objects.create(request.kind, request.document, request.timeout_ms)
    except KafkaError as error:
        mutations.give_back(partitions, error)
        return CreateObjectResponse(error_code=error.code, error_message=error.message)
    return CreateObjectResponse(document=write_document(created))
