"""Sends records to any number of topics, each stored once, and tells when all replicas have acknowledged them.

A record is sent as soon as the leader of its partition has no request of this producer under way. What arrives
meanwhile shares the next batch. After an election the same batch is sent again with the same sequence numbers.

Transactional output needs three more things: a transactional id in `_new_name`, the partitions of a transaction before
their first batch in `_send_to`, and the end of the transaction after `send`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from math import inf

import trio
from msgspec import Struct, field

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.records import Record
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.chance import Chance
from tailrace.runtime.wall_clock import WallClock

from .log_client import ACKS_OF_ALL, LogClient, ProducerName, why_unusable
from .log_facts import Partition
from .outgoing_line import OutgoingLine, Waiting, record_bytes
from .outgoing_records import Outgoing, Sending
from .partition_chooser import partition_of_key
from .server_connection import RefusedError, UnreachableError, reason_of, refusal
from .spu_client import (
    PATIENCE_SECONDS,
    PAUSE_SECONDS_MAX,
    PAUSE_SECONDS_MIN,
    SILENCE_SECONDS_MAX,
    TRANSIENT,
    SpuClient,
)

BYTES_MAX = 32 * 2**20
"""The size of the records that may wait in one producer. A `send` of more waits until others are acknowledged."""
NEW_TOPIC_SECONDS_MAX = 2.0
"""How long a topic may be unknown before it is reported, because a new topic is not known everywhere at once."""
TOPIC_AGE_SECONDS_MAX = 60.0
"""After this time a topic is looked up again, because it may have more partitions."""

NO_LEADER = RefusedError("the partition has no leader at the moment", ErrorCode.LEADER_NOT_AVAILABLE)

_RECORD_BYTES = 100
"""About how much memory a record takes besides its content."""
_NO_PARTITION = -1


class _Topic(Struct):
    numbers: list[int]
    """The partitions."""
    looked_up_at: float
    without_key: int = _NO_PARTITION
    """The partition for records without a key, until a batch of it is sent."""


class _Lookup(Struct, eq=False):
    """A topic that a call of `send` waits for."""

    ended: trio.Event = field(default_factory=trio.Event)
    failing_since: float | None = None
    error: RefusedError | UnreachableError | None = None


class RecordProducer:
    """An idempotent producer. `run` must run while `send` is called; any number of tasks may call `send`."""

    def __init__(
        self,
        spus: SpuClient,
        wall_clock: WallClock,
        chance: Chance,
        *,
        compression: Compression = Compression.NONE,
        bytes_max: int = BYTES_MAX,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Takes a client whose cluster is written to; the producer has connections of its own.

        `patience_seconds` is how long a leader may be unreachable before `send` gives up.
        """
        self._spus = spus.another()
        self._logs = LogClient(self._spus)
        self._wall_clock = wall_clock
        self._chance = chance
        self._compression = compression
        self._bytes_max = bytes_max
        self._patience_seconds = patience_seconds
        self.waiting_bytes = 0
        """The size of the records that are not acknowledged."""
        self._room = trio.Event()
        self._admission = trio.Lock()
        """The order in which tasks add records, so that a large `send` is not overtaken again and again."""
        self._topics: dict[str, _Topic] = {}
        self._lookups: dict[str, _Lookup] = {}
        self._leaders: dict[Partition, int] = {}
        """The leaders as far as they are known. A leader that could not be asked is removed."""
        self._lines: dict[Partition, OutgoingLine] = {}
        self._unplaced: dict[Partition, OutgoingLine] = {}
        """Lines with records whose leader must be looked up, or which need a producer id."""
        self._placed: dict[int, dict[Partition, OutgoingLine]] = {}
        """Lines with records, by the SPU to which their next batch goes."""
        self._name: ProducerName | None = None
        self._must_look = trio.Event()
        self._must_send: dict[int, trio.Event] = {}

    # sending

    async def send(self, records: Iterable[Outgoing]) -> None:
        """Sends records; returns when all of them are acknowledged by all replicas in sync.

        Raises RecordRefusedError if a record was refused, and UnreachableError if no leader took it in time. Other
        records may have been sent nevertheless, and none is under way any more. If the call is cancelled, what was not
        under way is not sent.
        """
        sending, outgoing = Sending(), list(records)
        try:
            await self._look_up_new(outgoing, sending)
            if sending.error is None:
                async with self._admission:
                    await self._add_all(outgoing, sending)
            sending.on_appended()
            await sending.ended.wait()
        except BaseException:
            self._withdraw(sending)
            raise
        if sending.error is not None:
            raise sending.error

    async def _look_up_new(self, outgoing: Sequence[Outgoing], sending: Sending) -> None:
        """Looks up topics that are new here. Meanwhile other calls of `send` go on."""
        for number, each in enumerate(outgoing):
            if each.topic not in self._topics:
                try:
                    await self._look_up(each.topic)
                except (RefusedError, UnreachableError) as error:
                    sending.fail(number, error)
                    return

    async def _add_all(self, outgoing: Sequence[Outgoing], sending: Sending) -> None:
        for number, each in enumerate(outgoing):
            try:
                await self._add(each, sending, number)
            except (RefusedError, UnreachableError) as error:
                sending.fail(number, error)
                return

    async def _add(self, outgoing: Outgoing, sending: Sending, number: int) -> None:
        topic = self._topics[outgoing.topic]
        if trio.current_time() - topic.looked_up_at > TOPIC_AGE_SECONDS_MAX:
            self._begin_lookup(outgoing.topic)
        if outgoing.partition is not None and outgoing.partition not in topic.numbers:
            topic = await self._look_up(outgoing.topic)  # it may have more partitions meanwhile
            if outgoing.partition not in topic.numbers:
                nowhere = f"there is no partition {Partition(outgoing.topic, outgoing.partition)}"
                raise RefusedError(nowhere, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        size = _RECORD_BYTES + record_bytes(outgoing.key, outgoing.value, outgoing.headers)
        while self.waiting_bytes and self.waiting_bytes + size > self._bytes_max:
            self._room = trio.Event()
            await self._room.wait()
        timestamp = self._wall_clock.now_ms() if outgoing.timestamp_ms is None else outgoing.timestamp_ms
        record = Record(0, timestamp, outgoing.key, outgoing.value, list(outgoing.headers))
        line = self._line(Partition(outgoing.topic, self._choose(topic, outgoing)))
        had_records = line.has_records
        line.add(Waiting(record, size, sending, number))
        self.waiting_bytes += size
        sending.left += 1
        sending.lines.add(line)
        if not had_records:
            self._place(line)

    def _choose(self, topic: _Topic, outgoing: Outgoing) -> int:
        if outgoing.partition is not None:
            return outgoing.partition
        if outgoing.key is not None:
            return topic.numbers[partition_of_key(outgoing.key, len(topic.numbers))]
        if topic.without_key == _NO_PARTITION:
            led = [each for each in topic.numbers if Partition(outgoing.topic, each) in self._leaders]
            topic.without_key = self._chance.choice(led or topic.numbers)
        return topic.without_key

    def _line(self, partition: Partition) -> OutgoingLine:
        line = self._lines.get(partition)
        if line is None:
            line = self._lines[partition] = OutgoingLine(partition, self._compression)
        return line

    def _withdraw(self, sending: Sending) -> None:
        for line in sending.lines:
            self._free(line.withdraw(sending))

    def _free(self, size: int) -> None:
        if size:
            self.waiting_bytes -= size
            self._room.set()

    # placing

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Sends what waits, until it is cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                await self._place_all(nursery)
        finally:
            self._spus.close()

    async def _place_all(self, nursery: trio.Nursery) -> None:
        """Looks up what must be looked up, and hands lines to the tasks of their leaders."""
        retry_at = inf
        while True:
            now = trio.current_time()
            begins: list[float | None] = [each.failing_since for each in self._unplaced.values()]
            begins += [each.failing_since for each in self._lookups.values()]
            failing = [each for each in begins if each is not None]
            if not failing:
                retry_at = inf
            elif retry_at == inf:
                # The longer it has failed, the longer is the pause.
                retry_at = now + min(max(now - max(failing), PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)
            with trio.move_on_at(retry_at):
                await self._must_look.wait()
            self._must_look = trio.Event()
            is_retry = trio.current_time() >= retry_at
            if is_retry:
                retry_at = inf
            lines = [each for each in self._unplaced.values() if is_retry or not _has_failed(each)]
            topics = [name for name, each in self._lookups.items() if is_retry or not _has_failed(each)]
            try:
                await self._look({*topics, *(each.partition.topic for each in lines)})
                if self._name is None and any(each.name is None for each in lines):
                    self._name = await self._new_name()
            except (UnreachableError, RefusedError) as error:
                self._on_not_found(topics, lines, error)
            for line in lines:
                self._unplaced.pop(line.partition, None)
                self._place(line)
            for spu_id in self._placed.keys() - self._must_send.keys():
                self._must_send[spu_id] = trio.Event()
                nursery.start_soon(self._serve, spu_id)

    def _place(self, line: OutgoingLine) -> None:
        """Hands a line with records to the task of its leader, or to `_place_all` if that must look something up."""
        if not line.has_records or line.partition in self._unplaced:
            return
        if line.name is None:
            line.name = self._name
        spu_id = self._leaders.get(line.partition)
        if spu_id is None or line.name is None:
            self._unplaced[line.partition] = line
            self._must_look.set()
            return
        self._placed.setdefault(spu_id, {})[line.partition] = line
        if spu_id in self._must_send:
            self._must_send[spu_id].set()
        else:
            self._must_look.set()

    async def _look(self, wanted: AbstractSet[str]) -> None:
        """Looks up topics, and the leaders of their partitions. Raises UnreachableError and RefusedError."""
        now = trio.current_time()
        missing = set(wanted)
        for each in (await self._spus.metadata(sorted(wanted))).topics if wanted else ():
            name = each.name or ""
            missing.discard(name)
            refused = refusal(each)
            if refused is not None:
                self._on_unusable(name, refused)
                continue
            numbers = sorted(one.partition_index for one in each.partitions)
            self._topics[name] = _Topic(numbers, now)
            for one in each.partitions:
                partition = Partition(name, one.partition_index)
                if one.leader_id >= 0:
                    self._leaders[partition] = one.leader_id
                else:
                    self._leaders.pop(partition, None)
                    if partition in self._unplaced:
                        self._fail(self._unplaced[partition], _named(partition, refusal(one) or NO_LEADER))
            if name in self._lookups:
                self._end_lookup(name, None)
        for name in missing:
            self._on_unusable(name, RefusedError("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    async def _new_name(self) -> ProducerName:
        """Gets a producer id. Raises UnreachableError and RefusedError."""
        spus = self._spus.another()
        try:
            return await LogClient(spus).producer_name()
        finally:
            spus.close()

    # looking up topics

    async def _look_up(self, name: str) -> _Topic:
        """Waits for a topic. Raises UnreachableError and RefusedError."""
        lookup = self._begin_lookup(name)
        await lookup.ended.wait()
        if lookup.error is not None:
            raise lookup.error
        return self._topics[name]

    def _begin_lookup(self, name: str) -> _Lookup:
        if name not in self._lookups:
            self._lookups[name] = _Lookup()
            self._must_look.set()
        return self._lookups[name]

    def _end_lookup(self, name: str, error: RefusedError | UnreachableError | None) -> None:
        lookup = self._lookups.pop(name)
        lookup.error = error
        lookup.ended.set()

    def _on_unusable(self, name: str, refused: RefusedError) -> None:
        """Takes the reason for which a server gives no partitions of a topic."""
        patience_seconds = 0.0
        if refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            patience_seconds = NEW_TOPIC_SECONDS_MAX
        elif refused.code in TRANSIENT:
            patience_seconds = self._patience_seconds
        error = why_unusable(name, refused.code)
        if refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            error = RefusedError(f"{error}; create it with `tailrace topic create {name}`", error.code)
        if name in self._lookups:
            self._fail_lookup(name, error, patience_seconds)
        for line in self._unplaced.values():
            if line.partition.topic == name:
                self._fail(line, error, patience_seconds)

    def _on_not_found(
        self, topics: Iterable[str], lines: Iterable[OutgoingLine], error: RefusedError | UnreachableError
    ) -> None:
        """Takes the reason for which nothing could be looked up."""
        for name in topics:
            if name in self._lookups:
                self._fail_lookup(name, error, self._patience_seconds)
        for line in lines:
            self._fail(line, error)

    def _fail_lookup(self, name: str, error: RefusedError | UnreachableError, patience_seconds: float) -> None:
        lookup, now = self._lookups[name], trio.current_time()
        if lookup.failing_since is None:
            lookup.failing_since = now
        if now >= lookup.failing_since + patience_seconds:
            self._end_lookup(name, _final(error))

    def _fail(
        self, line: OutgoingLine, error: RefusedError | UnreachableError, patience_seconds: float | None = None
    ) -> None:
        """Notes that the next batch of a line could not be sent, or got no response; gives up after a time."""
        now = trio.current_time()
        line.on_failed(now)
        assert line.failing_since is not None, "it has just failed"
        if now >= line.failing_since + (self._patience_seconds if patience_seconds is None else patience_seconds):
            with self._renewing(line):
                self._free(line.give_up(_final(error)))

    # asking leaders

    async def _serve(self, spu_id: int) -> None:
        """Sends the batches of the lines that one SPU leads, one request after the other."""
        while True:
            lines = self._placed.pop(spu_id, None)
            if lines is None:
                self._must_send[spu_id] = trio.Event()
                await self._must_send[spu_id].wait()
            else:
                await self._send_to(spu_id, {each: line for each, line in lines.items() if line.has_records})

    async def _send_to(self, spu_id: int, lines: Mapping[Partition, OutgoingLine]) -> None:
        """Sends one batch of each line to their leader."""
        batches = {partition: line.batch() for partition, line in lines.items()}
        for partition in lines:
            topic = self._topics.get(partition.topic)
            if topic is not None and topic.without_key == partition.number:
                topic.without_key = _NO_PARTITION
        answers: Mapping[Partition, int | RefusedError | UnreachableError | None] = {}
        try:
            if batches:
                answers = await self._logs.append_at(spu_id, batches, ACKS_OF_ALL, SILENCE_SECONDS_MAX)
        except (UnreachableError, RefusedError) as error:
            answers = dict.fromkeys(batches, error)
        for partition, line in lines.items():
            self._on_answer(spu_id, line, answers.get(partition, NO_LEADER))

    def _on_answer(self, spu_id: int, line: OutgoingLine, answer: int | RefusedError | UnreachableError | None) -> None:
        if isinstance(answer, UnreachableError) or (isinstance(answer, RefusedError) and answer.code in TRANSIENT):
            if self._leaders.get(line.partition) == spu_id:
                del self._leaders[line.partition]
            self._fail(line, _named(line.partition, answer) if isinstance(answer, RefusedError) else answer)
        elif isinstance(answer, RefusedError):
            with self._renewing(line):
                self._free(line.on_refused(_named(line.partition, answer)))
        else:
            self._free(line.on_appended())
        self._place(line)

    @contextmanager
    def _renewing(self, line: OutgoingLine) -> Iterator[None]:
        """Makes a line that loses its producer id inside get another one than before."""
        before = line.name
        yield
        if line.name is None and self._name == before:
            self._name = None


def _has_failed(each: OutgoingLine | _Lookup) -> bool:
    return each.failing_since is not None


def _final(error: RefusedError | UnreachableError) -> RefusedError | UnreachableError:
    """Returns the error with which to give up: a transient error means that the leader was not reached in time."""
    is_transient = isinstance(error, RefusedError) and error.code in TRANSIENT
    return UnreachableError(str(error)) if is_transient else error


def _named(partition: Partition, error: RefusedError) -> RefusedError:
    """Returns an error that names the partition."""
    return RefusedError(f"{partition}: {reason_of(error)}", error.code)
