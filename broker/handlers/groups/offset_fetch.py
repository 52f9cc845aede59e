"""OffsetFetch, versions 1–10: what groups have committed.

- v2 and later can ask for all topics, v8 and later for several groups at once, v9 lets members of KIP-848 groups say
  who they are, v10 names topics by ids. Up to v7 a refusal concerns the whole answer, in v1 each partition.
- A partition that nothing was committed for has the offset -1 and no error; so has every one of a group that is not
  there.
- Only what is committed by the replication policy is told, so `require_stable` (v7) asks for nothing more as long as
  there are no transactions.
- What was committed for a topic that was deleted is not told of another one that has its name.
- An answer of more than 32 MiB is refused with INVALID_REQUEST; Kafka has no bound.
- Who asks for several groups is a tool, and may ask for thousands: others get their turn in between.
"""

from collections.abc import Callable, Coroutine

from tailrace.broker.groups.common.coordinator_output import Waiter
from tailrace.broker.groups.common.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.groups.offsets.offset_fetching import ReplyRoom
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
from .group_responses import Gathering, Responding

SEVERAL_GROUPS_FROM = 8
ONE_ERROR_FOR_ALL_FROM = 2
REPLY_BYTES_MAX = 32 << 20
"""In memory: half a million partitions, and what clients noted with them."""
BYTES_PER_TURN = 128 * 1024
"""Some two thousand partitions, which take a few milliseconds."""
GROUP_BYTES = 64
"""A group takes as long as a partition, whatever it has committed."""

_NO_OFFSET = -1


def handle(
    host: ManyGroupsHost, context: RequestContext, request: OffsetFetchRequest
) -> Coroutine[object, object, None] | None:
    room = ReplyRoom(REPLY_BYTES_MAX)
    if context.api_version < SEVERAL_GROUPS_FROM:
        _fetch(host, context, _group_of(request), room, _one(context, request))
        return None
    gathering = Gathering(context, lambda groups: OffsetFetchResponse(groups=groups))
    if len(request.groups) > 1:
        return _fetch_several(host, context, request.groups, room, gathering)
    for group in request.groups:
        _fetch(host, context, group, room, gathering.part(_refused(group)))
    gathering.start()
    return None


async def _fetch_several(
    host: ManyGroupsHost,
    context: RequestContext,
    groups: list[OffsetFetchRequestGroup],
    room: ReplyRoom,
    gathering: Gathering,
) -> None:
    turns = Turns(BYTES_PER_TURN)
    for group in groups:
        before = room.left
        _fetch(host, context, group, room, gathering.part(_refused(group)))
        turns.count += GROUP_BYTES + before - room.left
        await turns.take(host.end_turn)
    host.end_turn()
    gathering.start()


def _fetch(
    host: ManyGroupsHost, context: RequestContext, group: OffsetFetchRequestGroup, room: ReplyRoom, waiter: Waiter
) -> None:
    def call(coordinator: Coordinator, moment: Moment) -> None:
        coordinator.offsets.fetch(group, context.api_version, room, waiter)

    host.groups.ask(group.group_id, waiter, call)


def _refused(group: OffsetFetchRequestGroup) -> Callable[[KafkaError], OffsetFetchResponseGroup]:
    return lambda error: OffsetFetchResponseGroup(group.group_id, error_code=error.code)


# versions that ask for one group


def _group_of(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics
        ]
    return OffsetFetchRequestGroup(request.group_id, topics=topics)


def _one(context: RequestContext, request: OffsetFetchRequest) -> Waiter:
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
