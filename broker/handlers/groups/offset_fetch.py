"""OffsetFetch, versions 1–10: the committed offsets of groups.

- v2 and later can ask for all topics, and v8 and later for several groups. In v9 members of KIP-848 groups name
  themselves. v10 names topics by id. Up to v7 an error applies to the whole response, in v1 to each partition.
- A partition without a committed offset has the offset -1 and no error. So has every partition of a group that does not
  exist.
- The response only has offsets that are committed by the replication policy. With `require_stable` (v7), it waits for
  the ends of transactions that have committed offsets of the partitions, for up to 5 s. Then such partitions get
  UNSTABLE_OFFSET_COMMIT, which Kafka responds at once.
- The offsets of a deleted topic do not apply to a new topic of the same name.
- A response of more than 32 MiB is refused with INVALID_REQUEST; Kafka has no bound.
- Only tools ask for several groups, and they may ask for thousands. Such a request is handled in several turns, so that
  other tasks run in between.
"""

from collections.abc import Callable, Coroutine

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.groups.offsets.offset_fetching import ResponseBudget
from tailrace.broker.handlers.coordinator_answers import Gathering, Responding
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from tailrace.runtime.turns import Turns
from tailrace.server.request_context import RequestContext

from .group_host import ManyGroupsHost

SEVERAL_GROUPS_FROM = 8
ONE_ERROR_FOR_ALL_FROM = 2
REPLY_BYTES_MAX = 32 << 20
"""The size of a response in memory: half a million partitions with their metadata."""
BYTES_PER_TURN = 128 * 1024
"""The size of about two thousand partitions, which take a few milliseconds."""
GROUP_BYTES = 64
"""A group without offsets takes as long as a partition of this size."""

_NO_OFFSET = -1


def handle(
    host: ManyGroupsHost, context: RequestContext, request: OffsetFetchRequest
) -> Coroutine[object, object, None] | None:
    budget = ResponseBudget(REPLY_BYTES_MAX)
    if context.api_version < SEVERAL_GROUPS_FROM:
        _fetch(
            host, context, _group_of(request), budget, _respond_for_one_group(context, request), request.require_stable
        )
        return None
    gathering = Gathering(context, lambda groups: OffsetFetchResponse(groups=groups))
    if len(request.groups) > 1:
        return _fetch_several(host, context, request, budget, gathering)
    for group in request.groups:
        _fetch(host, context, group, budget, gathering.part(_refused(group)), request.require_stable)
    gathering.start()
    return None


async def _fetch_several(
    host: ManyGroupsHost,
    context: RequestContext,
    request: OffsetFetchRequest,
    budget: ResponseBudget,
    gathering: Gathering,
) -> None:
    turns = Turns(BYTES_PER_TURN)
    for group in request.groups:
        before = budget.left
        _fetch(host, context, group, budget, gathering.part(_refused(group)), request.require_stable)
        turns.count += GROUP_BYTES + before - budget.left
        await turns.take(host.end_turn)
    host.end_turn()
    gathering.start()


def _fetch(
    host: ManyGroupsHost,
    context: RequestContext,
    group: OffsetFetchRequestGroup,
    budget: ResponseBudget,
    waiter: Waiter,
    require_stable: bool,
) -> None:
    def call(coordinator: Coordinator, moment: Moment) -> None:
        coordinator.offsets.fetch(group, context.api_version, budget, waiter, moment, require_stable=require_stable)

    host.groups.ask(group.group_id, waiter, call)


def _refused(group: OffsetFetchRequestGroup) -> Callable[[KafkaError], OffsetFetchResponseGroup]:
    return lambda error: OffsetFetchResponseGroup(group.group_id, error_code=error.code)


# versions that name one group


def _group_of(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics
        ]
    return OffsetFetchRequestGroup(request.group_id, topics=topics)


def _respond_for_one_group(context: RequestContext, request: OffsetFetchRequest) -> Waiter:
    def response(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
        topics = [
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        each.partition_index,
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.metadata,
                        each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in group.topics
        ]
        return OffsetFetchResponse(topics=topics)

    def refused(error: KafkaError) -> OffsetFetchResponse:
        if context.api_version >= ONE_ERROR_FOR_ALL_FROM:
            return OffsetFetchResponse(error_code=error.code)
        topics = [
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(partition, _NO_OFFSET, error_code=error.code)
                    for partition in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
        return OffsetFetchResponse(topics=topics)

    return Responding(context, refused, response)
