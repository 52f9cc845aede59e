"""A transactional id in a simulation: its processes follow each other, and some continue beside their successors."""

from collections.abc import Sequence
from math import inf

import trio
from simulation.determinism import random_of
from simulation.moments import Moments
from simulation.patient_client import RetryError
from simulation.world import World

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

from .consumer_membership import ConsumerMembership
from .group_membership import NO_GENERATION, GroupMembership
from .transaction_client import (
    FIRST,
    GROUP_KEYS,
    SECOND,
    AbortableError,
    FencedError,
    GaveUpError,
    TransactionClient,
    check,
)
from .transaction_history import (
    Fate,
    OffsetRead,
    Partition,
    Reader,
    Record,
    Send,
    Source,
    Transaction,
    TransactionHistory,
)
from .transaction_reader import TransactionReader
from .transaction_scenario import GROUP, SESSION_SECONDS, TransactionScenario, key_of

OFFSET_FETCH_VERSION = 9
PROCESSES_MAX = 1000
TRANSACTIONS_MAX = 1000
ABANDONED_SECONDS_MAX = 3.0
"""The longest timeout of transactions that nobody else ends."""
OFFSET_PATIENCE_SECONDS = 12.0
"""How long the last reader of offsets waits for them."""


class TransactionalId:
    """The actor behind one transactional id. With an input, it consumes, processes and produces."""

    def __init__(
        self,
        world: World,
        name: str,
        outputs: list[Partition],
        history: TransactionHistory,
        moments: Moments,
        scenario: TransactionScenario,
        strays: trio.Nursery,
        consumed: Sequence[Partition] = (),
        *,
        is_member: bool = False,
    ) -> None:
        """Makes the actor. With `is_member`, its processes are members of a group, which assigns `consumed`."""
        self.name = name
        self.world = world
        self.outputs = outputs
        self.history = history
        self.scenario = scenario
        self.consumed = consumed
        self.is_member = is_member
        self.left = scenario.transactions
        """How many transactions are still to be begun before the load settles."""
        self.is_settling = trio.Event()
        self.is_done = False
        self.last_reason = ""
        """Why the last process ended."""
        self._moments = moments
        self._strays = strays
        self._chance = random_of(world.seed, name)
        self._protocol = SECOND if self._chance.random() < scenario.second_protocol else FIRST
        self._has_zombies = self._chance.random() < 0.6
        self._timeouts = scenario.timeout_seconds
        self._is_abandoned = not consumed and self._chance.random() < 0.4
        """Whether its last process is killed when the load settles, so that only a timeout ends its transaction."""
        short = [each for each in self._timeouts if each <= ABANDONED_SECONDS_MAX]
        self._is_abandoned &= bool(short)
        if self._is_abandoned:
            self._timeouts, self.left = tuple(short), TRANSACTIONS_MAX
        self._values = 0

    def send(self, partition: Partition, source: Source | None = None) -> Send:
        """Returns a record to send now, with a value that no other record has."""
        self._values += 1
        value = b"%s/%d" % (self.name.encode(), self._values)
        key = key_of(value) if self.scenario.is_compacted else None
        return Send(partition, value, trio.current_time(), key=key, source=source)

    async def run(self) -> None:
        """Runs processes, one after the other, until one has ended well while the load settles."""
        async with trio.open_nursery() as nursery:
            if self._is_abandoned:
                nursery.start_soon(self._abandon, nursery.cancel_scope)
            for number in range(PROCESSES_MAX):
                client = self._client(number)
                process = _Process(client, self)
                if not self.is_settling.is_set() and self._has_zombies and self._chance.random() < 0.5:
                    nursery.start_soon(process.run)
                    await self._pause(self._chance.uniform(0.2, 2.0))
                    continue
                # A process that is killed leaves its transaction open.
                is_last = self.is_settling.is_set()
                lives = inf if is_last or self._chance.random() < 0.5 else self._chance.uniform(0.3, 3.0)
                with trio.move_on_after(lives):
                    await process.run()
                client.close()
                self.last_reason = f"{process.reason}; {client.client.last_reason}"
                if is_last and process.has_ended_well:
                    self.is_done = True
                    nursery.cancel_scope.cancel()
                    return
                await self._pause(self._chance.choice((0.05, 0.3, 1.0)) * self._chance.random())

    async def _abandon(self, scope: trio.CancelScope) -> None:
        await self.is_settling.wait()
        self.is_done = True
        scope.cancel()

    async def read_final_offset(self, partition: Partition) -> int:
        """Returns what the group has committed for a partition in the end."""
        client = self._client(PROCESSES_MAX)
        return await client.persist(lambda: _Process(client, self).fetch_offset(partition), OFFSET_PATIENCE_SECONDS)

    async def _pause(self, seconds: float) -> None:
        if self.is_settling.is_set():
            await trio.sleep(0.1)
            return
        with trio.move_on_after(seconds):
            await self.is_settling.wait()

    def _client(self, number: int) -> TransactionClient:
        return TransactionClient(
            self.world,
            f"{self.name}-{number}",
            self.name,
            self._protocol,
            self._chance.choice(self._timeouts),
            self.history,
            self._moments,
            random_of(self.world.seed, self.name, number),
            self._strays,
            scenario=self.scenario,
        )


class _Process:
    """One process: it begins with InitProducerId, and has one transaction after the other."""

    def __init__(self, client: TransactionClient, owner: TransactionalId) -> None:
        self.has_ended_well = False
        self.reason = "it was killed"
        self._client = client
        self._owner = owner
        self._chance = client.chance
        self._readers: dict[Partition, TransactionReader] = {}
        """The readers of the assigned partitions, which continue after what the group has committed."""
        kind = ConsumerMembership if owner.scenario.has_new_members else GroupMembership
        self._membership = kind(client, owner.consumed) if owner.is_member else None
        self._generation = NO_GENERATION
        self._taken: Sequence[Partition] = ()
        """The partitions that were assigned when the last transaction began."""

    async def run(self) -> None:
        try:
            await self._client.init()
            while not self._should_end():
                await self._work()
            self.has_ended_well, self.reason = True, "it ended well"
        except (FencedError, GaveUpError) as error:
            self.reason = f"{type(error).__name__}: {error}"
        finally:
            self._client.close()

    def _should_end(self) -> bool:
        if not self._owner.is_settling.is_set() or not self._owner.consumed:
            return self._owner.is_settling.is_set()
        if self._membership is not None and self._generation == NO_GENERATION:
            return False
        readers = [self._readers.get(each) for each in self._assigned]
        return all(each is not None and each.is_at_end for each in readers)

    @property
    def _assigned(self) -> Sequence[Partition]:
        return self._owner.consumed if self._membership is None else self._membership.partitions

    async def _work(self) -> None:
        """Does the work of one transaction, and aborts the transaction if it must."""
        if not self._owner.consumed and (self._owner.left <= 0 or self._chance.random() < 0.3):
            with trio.move_on_after(0.5 * self._chance.random() if self._owner.left > 0 else inf):
                await self._owner.is_settling.wait()
                return
        transaction: Transaction | None = None
        try:
            if not self._owner.consumed:
                self._owner.left -= 1
                transaction = self._client.begin()
                await self._write(transaction)
            else:
                reader, records = await self._consume()
                if reader is None or not records:
                    return
                transaction = self._client.begin()
                await self._process(transaction, reader, records)
            await self._client.end(
                transaction, is_commit=self._owner.is_settling.is_set() or self._chance.random() < 0.75
            )
        except AbortableError:
            assert transaction is not None
            await self._abort(transaction)
        if transaction.fate is not Fate.COMMITTED:
            self._readers.clear()

    async def _abort(self, transaction: Transaction) -> None:
        await self._client.end(transaction, is_commit=False)
        if self._client.needs_new_epoch:
            await self._client.init()

    async def _write(self, transaction: Transaction) -> None:
        """Writes to some partitions, in several steps, or to none."""
        partitions = self._chance.sample(self._owner.outputs, self._chance.randint(1, len(self._owner.outputs)))
        if self._client.protocol.adds_partitions and self._chance.random() < 0.5:
            await self._client.add(partitions)
            if self._chance.random() < 0.15:
                return  # a transaction may end without a record in a partition that was added
        for _ in range(self._chance.randint(1, 3)):
            partition = self._chance.choice(partitions)
            batches = [
                [self._owner.send(partition) for _ in range(self._chance.randint(1, 2))]
                for _ in range(self._chance.choice((1, 1, 3)))
            ]
            await self._client.send(transaction, partition, batches)
            if self._chance.random() < 0.3:
                await trio.sleep(self._chance.choice((0.02, 0.2, 1.0)) * self._chance.random())

    # consume, process, produce

    async def _consume(self) -> tuple[TransactionReader | None, list[Record]]:
        """Returns new records of an assigned partition, and their reader."""
        async with self._client.client.trying():
            if self._membership is not None:
                await self._membership.refresh()
                # A new member may lose partitions, and get them back, in one epoch.
                if (self._membership.generation, self._membership.partitions) != (self._generation, self._taken):
                    self._generation, self._taken = self._membership.generation, self._membership.partitions
                    self._readers.clear()
            if not self._assigned:
                raise RetryError("no partition is assigned")
            partition = self._chance.choice(self._assigned)
            if partition not in self._readers:
                self._readers[partition] = self._reader(partition, await self.fetch_offset(partition))
            return self._readers[partition], await self._readers[partition].poll_once()
        return None, []

    def _reader(self, partition: Partition, offset: int) -> TransactionReader:
        reader = Reader(f"{self._client.name} as a reader of {partition}", True)
        self._owner.history.readers.append(reader)
        return TransactionReader(
            self._owner.world,
            self._client.name,
            partition,
            reader,
            self._chance,
            start=max(offset, 0),
            reads_anywhere=self._chance.random() < 0.4,
            may_skip=self._owner.scenario.deletes_records,
        )

    async def fetch_offset(self, partition: Partition) -> int:
        """Asks once for the offset that the group has committed. Raises RetryError if it is not stable."""
        topic = OffsetFetchRequestTopics(partition.topic, partition_indexes=[partition.number])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=[topic])], require_stable=True)
        began = trio.current_time()
        response = await self._client.ask_coordinator(
            GROUP_KEYS, GROUP, ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, request
        )
        (group,) = response.groups
        self._client.check(group.error_code, GROUP_KEYS, GROUP)
        check(group.error_code, self._client.name)
        (answered,) = group.topics[0].partitions
        if answered.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
            raise RetryError("the offset is part of an open transaction")
        check(answered.error_code, self._client.name)
        offset: int = answered.committed_offset
        self._owner.history.offset_reads.append(OffsetRead(GROUP, partition, offset, began, trio.current_time()))
        return offset

    async def _process(self, transaction: Transaction, reader: TransactionReader, records: list[Record]) -> None:
        outputs: dict[Partition, list[Send]] = {}
        for record in records:
            output = self._chance.choice(self._owner.outputs)
            source = Source(GROUP, reader.partition, record.offset)
            send = self._owner.send(output, source)
            outputs.setdefault(output, []).append(send)
        offsets_first = self._chance.random() < 0.2
        if offsets_first:
            await self._send_offsets(transaction, reader)
        for output, sends in outputs.items():
            await self._client.send(transaction, output, [sends])
        await self._stall()
        if not offsets_first:
            await self._send_offsets(transaction, reader)
        await self._stall()

    async def _stall(self) -> None:
        """Makes a member silent now and then, perhaps for so long that others continue without it."""
        if self._membership is not None and not self._owner.is_settling.is_set() and self._chance.random() < 0.1:
            await trio.sleep(SESSION_SECONDS * self._chance.uniform(0.5, 2))

    async def _send_offsets(self, transaction: Transaction, reader: TransactionReader) -> None:
        membership = self._membership
        member_id = "" if membership is None else membership.member_id
        offsets = {reader.partition: reader.offset}
        await self._client.send_offsets(transaction, GROUP, offsets, generation=self._generation, member_id=member_id)
