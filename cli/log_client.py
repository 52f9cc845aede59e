"""Asks the leaders of partitions about their logs.

A partition that is refused has its refusal in its place, beside what the others have answered.
"""

from collections.abc import Iterable, Mapping, Sequence

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from .fetched_records import first_timestamp
from .log_facts import LogEnds, Partition, by_topic
from .server_connection import RefusedError, refusal
from .spu_client import SpuClient

EARLIEST = -2
LATEST = -1

_NAMED_FETCHES_MAX = 12
"""From the next version on topics have ids, which we would have to look up."""
_ONE_BATCH = 1
"""So many bytes at most: the first batch comes all the same, and whole."""

Offsets = dict[Partition, int | RefusedError]


class LogClient:
    def __init__(self, spus: SpuClient) -> None:
        self._spus = spus

    async def partitions(self, topics: Sequence[str]) -> dict[str, list[Partition] | RefusedError]:
        """Of each topic."""
        answers: dict[str, list[Partition] | RefusedError] = {each: _no_such_topic(each) for each in topics}
        for each in (await self._spus.metadata(topics)).topics if topics else ():
            if each.name is not None and not each.error_code:
                answers[each.name] = sorted(Partition(each.name, one.partition_index) for one in each.partitions)
        return answers

    async def offsets_at(self, partitions: Iterable[Partition], timestamp: int) -> Offsets:
        """Of the first record that is not older; -1 when there is none. Or EARLIEST and LATEST: where the log begins,
        and the next offset."""

        async def ask(spu_id: int, wanted: Sequence[Partition]) -> Offsets:
            topics = [
                ListOffsetsTopic(topic, [ListOffsetsPartition(number, timestamp=timestamp) for number in numbers])
                for topic, numbers in by_topic(wanted)
            ]
            response = await self._spus.ask(spu_id, ListOffsetsRequest(replica_id=-1, topics=topics))
            return {
                Partition(topic.name, each.partition_index): refusal(each) or each.offset
                for topic in response.topics
                for each in topic.partitions
            }

        return await self._spus.ask_each(partitions, self._leaders, ask)

    async def ends(self, partitions: Sequence[Partition]) -> dict[Partition, LogEnds | RefusedError]:
        starts = await self.offsets_at(partitions, EARLIEST)
        ends = await self.offsets_at(partitions, LATEST)
        found: dict[Partition, LogEnds | RefusedError] = {}
        for partition in partitions:
            start, end = starts[partition], ends[partition]
            if isinstance(start, RefusedError):
                found[partition] = start
            else:
                found[partition] = end if isinstance(end, RefusedError) else LogEnds(start, end)
        return found

    async def timestamps(self, offsets: Mapping[Partition, int]) -> dict[Partition, int | None]:
        """Of the first record that is not below the offset; None where none was found. One fetch for each partition,
        since of several in one fetch only the first is sure to bring something."""

        async def ask(spu_id: int, wanted: Sequence[Partition]) -> dict[Partition, int | RefusedError | None]:
            return {each: await self._timestamp(spu_id, each, offsets[each]) for each in wanted}

        answers = await self._spus.ask_each(offsets, self._leaders, ask)
        return {each: None if isinstance(found, RefusedError) else found for each, found in answers.items()}

    async def _timestamp(self, spu_id: int, partition: Partition, offset: int) -> int | RefusedError | None:
        wanted = FetchPartition(partition.number, fetch_offset=offset, partition_max_bytes=_ONE_BATCH)
        request = FetchRequest(max_bytes=_ONE_BATCH, topics=[FetchTopic(partition.topic, partitions=[wanted])])
        response = await self._spus.ask(spu_id, request, _NAMED_FETCHES_MAX)
        answers = [each for topic in response.responses for each in topic.partitions]
        refused = refusal(response) or next(filter(None, map(refusal, answers)), None)
        if refused is not None:
            return refused
        return next((first_timestamp(each.records, offset) for each in answers if each.records is not None), None)

    async def _leaders(self, partitions: Sequence[Partition]) -> dict[Partition, int | RefusedError]:
        return {Partition(*each): where for each, where in (await self._spus.leaders(partitions)).items()}


def _no_such_topic(topic: str) -> RefusedError:
    return RefusedError(f"there is no topic {topic}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
