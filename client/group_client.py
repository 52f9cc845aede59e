"""Asks coordinators about groups, and leaders about the logs that groups read.

The result for a refused group or partition is the refusal; the results for the others are not affected.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.explain_group import ExplainGroupRequest, ExplainGroupResponse
from tailrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tailrace.protocol.messages.delete_groups import DeleteGroupsRequest
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.list_groups import ListGroupsRequest
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

from .group_facts import Group, ListedGroup, Progress
from .group_responses import classic_group, consumer_group, is_not_found, no_such_group, progress, refused_partitions
from .log_client import LogClient
from .log_facts import LogEnds, Partition, by_topic
from .server_connection import ClosedError, RefusedError, refusal, unless_refused
from .spu_client import PASSING, SpuClient

TIMES_MAX = 500
"""The number of partitions of a group for which the age of the first unread record is looked up, with a fetch each."""

NAMED_COMMITS_MAX = 9
"""The last version of OffsetCommit and OffsetFetch that names topics; later ones need their ids."""

NO_METADATA: Mapping[Partition, str] = MappingProxyType({})


class GroupClient:
    """Asks about groups through an `SpuClient`."""

    def __init__(self, spus: SpuClient) -> None:
        self._spus = spus
        self.logs = LogClient(spus)

    async def listed(self, states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
        """Lists all groups, or those in some states and of some types. Raises RefusedError."""

        async def ask(spu_id: int, _: Sequence[int]) -> dict[int, Any]:
            response = await self._spus.ask(spu_id, ListGroupsRequest(list(states), list(types)))
            return {spu_id: refusal(response) or response}

        found = []
        for spu_id, answer in (await self._spus.ask_each(await self._spus.spus(), _itself, ask)).items():
            for each in unless_refused(answer).groups:
                listed = ListedGroup(
                    each.group_id, each.group_type.lower(), each.protocol_type, each.group_state, spu_id, None
                )
                found.append(listed)
        return sorted(found, key=lambda each: each.id)

    async def describe(self, group_ids: Sequence[str]) -> dict[str, Group | RefusedError]:
        """Describes groups with their members."""

        async def ask(spu_id: int, ids: Sequence[str]) -> dict[str, Group | RefusedError]:
            found = await self._consumer_groups(spu_id, ids)
            # A group that is not a KIP-848 group may be a classic one.
            others = [each for each in ids if is_not_found(found.get(each))]
            if others:
                response = await self._spus.ask(spu_id, DescribeGroupsRequest(others))
                found.update({each.group_id: classic_group(each, spu_id) for each in response.groups})
            return found

        return await self._spus.ask_each(group_ids, self._spus.coordinators, ask)

    async def _consumer_groups(self, spu_id: int, ids: Sequence[str]) -> dict[str, Group | RefusedError]:
        try:
            response = await self._spus.ask(spu_id, ConsumerGroupDescribeRequest(list(ids)))
        except RefusedError as refused:
            if refused.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            return {each: no_such_group(each) for each in ids}
        return {each.group_id: refusal(each) or consumer_group(each, spu_id) for each in response.groups}

    async def committed(self, group_ids: Sequence[str]) -> dict[str, list[Progress] | RefusedError]:
        """Returns the committed offsets of groups; an unknown group has none."""

        async def ask(spu_id: int, ids: Sequence[str]) -> dict[str, list[Progress] | RefusedError]:
            wanted = [OffsetFetchRequestGroup(each, topics=None) for each in ids]
            response = await self._spus.ask(spu_id, OffsetFetchRequest(groups=wanted), NAMED_COMMITS_MAX)
            return {each.group_id: refusal(each) or progress(each) for each in response.groups}

        return await self._spus.ask_each(group_ids, self._spus.coordinators, ask)

    async def explain(self, group_id: str) -> ExplainGroupResponse | RefusedError:
        """Asks the coordinator for the last rebalances of a group."""

        async def ask(spu_id: int, ids: Sequence[str]) -> dict[str, ExplainGroupResponse | RefusedError]:
            try:
                response = await self._spus.ask(spu_id, ExplainGroupRequest(group_id))
            except ClosedError:
                why = "the coordinator closed the connection; only SPUs of Tailrace explain groups"
                return dict.fromkeys(ids, RefusedError(why))
            return dict.fromkeys(ids, refusal(response) or response)

        return (await self._spus.ask_each([group_id], self._spus.coordinators, ask))[group_id]

    async def committed_in(
        self, group_id: str, partitions: Iterable[Partition], *, only_stable: bool = False
    ) -> dict[Partition, Progress | RefusedError | None]:
        """Returns the committed offset and its metadata in each partition; None if there is none.

        `only_stable` waits while offsets are in an open transaction. Raises RefusedError.
        """
        wanted = sorted(partitions)
        topics = [OffsetFetchRequestTopics(topic, partition_indexes=numbers) for topic, numbers in by_topic(wanted)]

        async def ask(spu_id: int, ids: Sequence[str]) -> dict[str, Any]:
            groups = [OffsetFetchRequestGroup(group_id, topics=topics)]
            request = OffsetFetchRequest(groups=groups, require_stable=only_stable)
            response = await self._spus.ask(spu_id, request, NAMED_COMMITS_MAX)
            found: dict[Partition, Any] = dict.fromkeys(wanted)
            (group,) = response.groups
            found.update({each.partition: each for each in progress(group)})
            found.update(refused_partitions(group))
            passing = next((each for each in found.values() if _is_passing(each)), None)
            return dict.fromkeys(ids, refusal(group) or passing or found)

        answers = await self._spus.ask_each([group_id], self._spus.coordinators, ask)
        found: dict[Partition, Progress | RefusedError | None] = unless_refused(answers[group_id])
        return found

    async def commit(
        self, group_id: str, offsets: Mapping[Partition, int], metadata: Mapping[Partition, str] = NO_METADATA
    ) -> dict[Partition, RefusedError | None]:
        """Commits offsets without being a member, which is allowed if the group has none. Raises RefusedError.

        `metadata` is a text that the coordinator keeps with the offset of a partition.
        """
        return await self._change(group_id, OffsetCommitRequest(group_id, topics=committed_topics(offsets, metadata)))

    async def commit_each(
        self, offsets: Mapping[str, Mapping[Partition, int]]
    ) -> dict[str, dict[Partition, RefusedError | None] | RefusedError]:
        """Commits offsets of several groups, as `commit` does. Coordinators are asked at the same time."""

        async def ask(spu_id: int, ids: Sequence[str]) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for group_id in ids:
                request = OffsetCommitRequest(group_id, topics=committed_topics(offsets[group_id]))
                response = await self._spus.ask(spu_id, request, NAMED_COMMITS_MAX)
                found[group_id] = _changes(response)
            return found

        return await self._spus.ask_each(offsets, self._spus.coordinators, ask)

    async def delete_offsets(
        self, group_id: str, partitions: Iterable[Partition]
    ) -> dict[Partition, RefusedError | None]:
        """Deletes committed offsets. Raises RefusedError if the group does not exist."""
        topics = [
            OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(number) for number in numbers])
            for topic, numbers in by_topic(partitions)
        ]
        return await self._change(group_id, OffsetDeleteRequest(group_id, topics))

    async def _change(self, group_id: str, request: Any) -> dict[Partition, RefusedError | None]:
        """Sends a request that changes the offsets of a group; returns a result for each partition."""

        async def ask(spu_id: int, ids: Sequence[str]) -> dict[str, Any]:
            return dict.fromkeys(ids, _changes(await self._spus.ask(spu_id, request, NAMED_COMMITS_MAX)))

        answers = await self._spus.ask_each([group_id], self._spus.coordinators, ask)
        changed: dict[Partition, RefusedError | None] = unless_refused(answers[group_id])
        return changed

    async def delete(self, group_ids: Sequence[str]) -> dict[str, RefusedError | None]:
        """Deletes groups."""

        async def ask(spu_id: int, ids: Sequence[str]) -> dict[str, RefusedError | None]:
            response = await self._spus.ask(spu_id, DeleteGroupsRequest(list(ids)))
            return {each.group_id: refusal(each) for each in response.results}

        return await self._spus.ask_each(group_ids, self._spus.coordinators, ask)

    # asking the leaders of the logs

    async def progress(self, groups: Sequence[Group]) -> dict[str, list[Progress]]:
        """Returns the progress of each group in every partition that it owns or has committed to.

        Raises RefusedError.
        """
        committed = await self.committed([each.id for each in groups])
        rows: dict[str, dict[Partition, Progress]] = {}
        for group in groups:
            owners = group.owners()
            owned = {each: Progress(each, owner=owner) for each, owner in owners.items()}
            rows[group.id] = owned | {
                each.partition: replace(each, owner=owners.get(each.partition))
                for each in unless_refused(committed[group.id])
            }
        ends = await self.logs.ends(sorted({each for of_group in rows.values() for each in of_group}))
        logs = {each: end for each, end in ends.items() if isinstance(end, LogEnds)}
        return {
            group_id: await self._with_ages(
                [replace(row, log=logs.get(each)) for each, row in sorted(of_group.items())]
            )
            for group_id, of_group in rows.items()
        }

    async def _with_ages(self, progress: list[Progress]) -> list[Progress]:
        unread = {
            each.partition: max(each.committed, each.log.start)
            for each in progress
            if each.lag and each.committed is not None and each.log is not None
        }
        since = await self.logs.timestamps(dict(list(unread.items())[:TIMES_MAX]))
        return [replace(each, unread_since_ms=since.get(each.partition)) for each in progress]


def _changes(response: Any) -> Any:
    """Returns the result for each partition, or the refusal of the whole request if it may succeed later."""
    answers = {
        Partition(topic.name, each.partition_index): refusal(each)
        for topic in response.topics
        for each in topic.partitions
    }
    refused = refusal(response) if hasattr(response, "error_code") else None
    passing = next((each for each in answers.values() if _is_passing(each)), None)
    return refused or passing or answers


def committed_topics(
    offsets: Mapping[Partition, int], metadata: Mapping[Partition, str] = NO_METADATA
) -> list[OffsetCommitRequestTopic]:
    """Returns the topics of a request that commits the next offset of each partition."""

    def asked(partition: Partition) -> OffsetCommitRequestPartition:
        text = metadata.get(partition, "")
        return OffsetCommitRequestPartition(partition.number, offsets[partition], committed_metadata=text)

    return [
        OffsetCommitRequestTopic(topic, partitions=[asked(Partition(topic, each)) for each in numbers])
        for topic, numbers in by_topic(offsets)
    ]


def _is_passing(answer: object) -> bool:
    return isinstance(answer, RefusedError) and answer.code in PASSING


async def _itself(spus: Sequence[int]) -> dict[int, int | RefusedError]:
    return {each: each for each in spus}
