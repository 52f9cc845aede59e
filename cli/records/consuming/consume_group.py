"""`tailrace consume --group`: reads as a member of a consumer group, and commits what was printed.

A record counts as printed when the reader of standard output has taken it. Its offset is committed after that, so a
record can be printed again after a failure, but none is left out.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

import trio

from tailrace.cli.options.sc_options import StoppedError, say
from tailrace.cli.records.formats.consumed_record import Consumed
from tailrace.client.group_client import GroupClient
from tailrace.client.group_member import GroupMember
from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import LogEnds, Partition
from tailrace.client.server_connection import RefusedError, UnreachableError, answered, unless_refused
from tailrace.client.spu_client import SpuClient
from tailrace.runtime.process import Stop, run_stoppable

from .consume_ranges import offsets_of
from .consume_request import ConsumeRequest
from .leader_reading import LeaderReading, enter
from .topic_choice import REFRESH_SECONDS

COMMIT_SECONDS = 1.0
"""How often printed records are committed. A rebalance and the end commit them too."""
LEAVE_SECONDS_MAX = 5.0
_PAUSE_SECONDS = 0.2


async def consume_in_group(spus: SpuClient, request: ConsumeRequest) -> None:
    """Prints the records that the group assigns to this command. Raises StoppedError after a signal."""
    with closing(spus.another()) as coordinating:
        stop = await run_stoppable(_GroupConsumer(spus, coordinating, request).run)
    if stop.signal is not None and not request.arguments.follow:
        raise StoppedError("stopped; what was printed is committed", stop.signal)


class _GroupConsumer:
    """One member of the group, and what it has printed."""

    def __init__(self, spus: SpuClient, coordinating: SpuClient, request: ConsumeRequest) -> None:
        """Takes a client for fetches, and one for the requests of the member, so that heartbeats wait for no fetch."""
        self._client = LogClient(spus)
        self._groups = GroupClient(spus)
        self._member = GroupMember(coordinating, request.arguments.group, self._partitions_of)
        self._request = request
        self._arguments = request.arguments
        self._choice = request.choice
        self._reader = request.reader({}, None)
        self._ends: dict[Partition, int] = {}
        """Without `--follow`, the log end of each partition when this member first got it."""
        self._printed: dict[Partition, int] = {}
        """The next offset of each assigned partition; everything before it was printed, or is not wanted."""
        self._committed: dict[Partition, int] = {}
        self._commit_at = 0.0
        self._known: list[Partition] = []
        """The partitions of the topics when the member joined."""

    async def run(self, stop: Stop) -> None:
        """Reads until everything is printed or a stop is asked for; then commits and leaves the group."""
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._member.stay_alive)
            try:
                await self._read_and_rejoin(stop)
            except Exception as error:
                failure = error
            finally:
                with trio.move_on_after(LEAVE_SECONDS_MAX, shield=True):
                    await self._end()
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _read_and_rejoin(self, stop: Stop) -> None:
        while not self._is_done() and not stop.is_asked():
            self._known = await self._choice.partitions(self._client)
            topics = sorted({each.topic for each in self._known})
            if not topics and not self._arguments.follow:
                raise RefusedError(self._choice.no_match())
            with stop.ends_waiting():
                await self._take_over(await self._member.join(topics))
            if not stop.is_asked():
                await self._read(stop)
            await self._commit()

    def _is_done(self) -> bool:
        return self._reader.count == 0 or (
            bool(self._known)
            and not self._member.must_rejoin
            and not self._arguments.follow
            and not self._reader.wanted
        )

    async def _take_over(self, assigned: Sequence[Partition]) -> None:
        """Continues in each partition where the group has committed, or begins where the command line says."""
        # If no other member can have read a partition meanwhile, what was printed counts, even if it is not committed.
        kept = {each: self._printed[each] for each in assigned if each in self._printed}
        if self._member.was_removed:
            kept = {}
        self._say_what_may_repeat(kept)
        self._printed = kept
        self._member.was_removed = False
        committed = {
            each.partition: each.committed
            for each in unless_refused((await self._groups.committed([self._arguments.group]))[self._arguments.group])
            if each.committed is not None
        }
        logs = answered(await self._client.ends(assigned))
        begin = await offsets_of(self._client, self._arguments.start, _without(logs, committed), self._request.now_ms)
        self._printed = {each: max((committed | begin).get(each, 0), kept.get(each, 0)) for each in assigned}
        self._committed = {each: committed[each] for each in assigned if each in committed}
        self._reader.positions = dict(self._printed)
        if not self._arguments.follow:
            readable = answered(await self._client.ends(assigned, only_stable=self._request.only_stable))
            for each, log in readable.items():
                self._ends.setdefault(each, log.end)
            self._reader.ends = {each: self._ends[each] for each in assigned}
        enter(self._reader, logs)

    async def _read(self, stop: Stop) -> None:
        """Prints records until the group rebalances, a stop is asked for, or everything is printed."""
        reading = LeaderReading(self._client, self._reader, self._choice.is_only_matched)
        refresh_at = trio.current_time() + REFRESH_SECONDS

        def goes_on() -> bool:
            return not stop.is_asked() and not self._member.must_rejoin

        while goes_on() and self._reader.count != 0:
            if self._reader.wanted:
                found = None
                with stop.ends_waiting():
                    found = await reading.next()
                for partition, records in found or ():
                    if not await self._print(partition, records, goes_on):
                        return
            elif not self._arguments.follow:
                return
            else:
                with stop.ends_waiting():
                    await trio.sleep(_PAUSE_SECONDS)
            if trio.current_time() >= self._commit_at:
                await self._commit()
            if self._arguments.follow and trio.current_time() >= refresh_at:
                if await self._choice.partitions(self._client) != self._known:
                    self._member.must_rejoin = True
                refresh_at = trio.current_time() + REFRESH_SECONDS

    async def _print(self, partition: Partition, records: Sequence[Consumed], goes_on: Callable[[], bool]) -> bool:
        """Prints records of one partition; returns False if it ended before the last one."""

        def printed(last: Consumed) -> bool:
            self._printed[partition] = last.record.offset + 1
            return goes_on()

        count = await self._request.output.show(records, printed)
        if count < len(records):
            if self._reader.count is not None:
                self._reader.count += len(records) - count
            return False
        self._printed[partition] = self._reader.positions[partition]
        return True

    async def _commit(self) -> None:
        """Commits what was printed since the last time, unless the group has given the partitions to others."""
        new = {each: offset for each, offset in self._printed.items() if offset != self._committed.get(each)}
        if new and not self._member.was_removed and await self._member.commit(new):
            self._committed.update(new)
        self._commit_at = trio.current_time() + COMMIT_SECONDS

    async def _end(self) -> None:
        try:
            await self._commit()
            self._say_what_may_repeat({})
            await self._member.leave()
        except (RefusedError, UnreachableError) as error:
            say("consume", str(error))
            self._say_what_may_repeat({})

    def _say_what_may_repeat(self, kept: Mapping[Partition, int]) -> None:
        """Names the records that were printed but not committed, except in partitions that this member keeps."""
        for partition, offset in sorted(self._printed.items()):
            since = self._committed.get(partition, 0)
            if offset > since and partition not in kept:
                say(
                    "consume",
                    f"the group may print the records of {partition} from offset {since} to {offset - 1} again",
                )

    async def _partitions_of(self, topics: Sequence[str]) -> Mapping[str, Sequence[Partition]]:
        found = await self._client.partitions(topics)
        return {topic: [] if isinstance(each, RefusedError) else each for topic, each in found.items()}


def _without(logs: Mapping[Partition, LogEnds], others: Mapping[Partition, int]) -> dict[Partition, LogEnds]:
    return {each: log for each, log in logs.items() if each not in others}
