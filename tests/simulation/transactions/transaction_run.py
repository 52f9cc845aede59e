"""Simulates one seed with transactions: a cluster, producers and readers under faults, and the checks at the end."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
import trio
from simulation.determinism import random_of
from simulation.eraser import Eraser
from simulation.faults import Catalogue
from simulation.faulty_network import SimulatedConnection
from simulation.group_faults import GROUP_CATALOGUE
from simulation.history import PartitionHistory
from simulation.mover import Mover
from simulation.outages import OUTAGES
from simulation.simulation import Outcome, Run, SimulationError, simulate
from simulation.world import Print

from tailrace.broker.transactions.coordinator import transaction_state
from tailrace.cluster.coordinators import TRANSACTIONS_TOPIC
from tailrace.protocol.apis import ApiKey

from . import checker, transaction_history
from .kept_records import keys_of, last_offsets
from .plain_writer import PlainWriter
from .transaction_faults import TRANSACTION_CATALOGUE
from .transaction_history import FinalLog, Marker, Partition, Reader, Stored, TransactionHistory
from .transaction_reader import TransactionReader, stored_of
from .transaction_scenario import GROUP, PAYMENTS, RECEIPTS, TransactionScenario
from .transactional_id import TransactionalId

FINAL_SECONDS_MAX = 120.0
MARKERS_KEY = ApiKey.WRITE_TXN_MARKERS.to_bytes(2, "big")
"""The beginning of a request that writes markers, after its size."""


def simulate_transactions(scenario: TransactionScenario, show: Print | None = None) -> Outcome:
    return simulate(scenario, show, TransactionRun)


@contextmanager
def _epochs_up_to(last: int) -> Iterator[None]:
    """Lets the epochs of producers end early, because no simulation takes long enough to use them up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction_state, "EPOCH_MAX", last)
        patch.setattr(transaction_state, "EPOCH_USED_MAX", last - 1)
        yield


class Acknowledged(PartitionHistory):
    """Tells an eraser how much was acknowledged of a partition with transactions, whose history is kept elsewhere."""

    def __init__(self, history: TransactionHistory, partition: Partition) -> None:
        super().__init__(partition.number)
        self._whole = history
        self._which = partition

    @property
    def known_end(self) -> int:
        offsets = (send.offset for send, _, _ in self._whole.sends() if send.partition == self._which)
        return max((each for each in offsets if each is not None), default=-1) + 1


FAULTS: Catalogue = {**GROUP_CATALOGUE, **OUTAGES, **TRANSACTION_CATALOGUE}


class TransactionRun(Run):
    scenario: TransactionScenario
    catalogue = FAULTS

    @property
    def group_kinds(self) -> Sequence[str]:
        return ()

    async def run(self) -> None:
        self.history = TransactionHistory()
        with _epochs_up_to(self.scenario.epoch_max):
            await super().run()

    async def _create_topic(self) -> None:
        await super()._create_topic()
        await self._create(PAYMENTS, self.scenario.payments)
        await self._create(RECEIPTS, self.scenario.receipts)

    def _look_at_sent(self, connection: SimulatedConnection, data: bytes) -> None:
        super()._look_at_sent(connection, data)
        if data[4:6] == MARKERS_KEY and connection.local.host.startswith("spu-"):
            self.faults.moments.reach("markers", (connection, data))

    # load

    async def _work(self, nursery: trio.Nursery) -> None:
        scenario, chance = self.scenario, random_of(self.scenario.seed, "load of transactions")
        payments = [Partition(PAYMENTS, number) for number in range(scenario.payments)]
        receipts = [Partition(RECEIPTS, number) for number in range(scenario.receipts)]
        self.ids = [self._id(f"payer-{number}", payments, nursery) for number in range(scenario.ids)]
        for number, each in enumerate(payments if scenario.has_processors else ()):
            consumed = payments if scenario.has_members else [each]
            self.ids.append(self._id(f"cashier-{number}", receipts, nursery, consumed))
        self.writers = [
            PlainWriter(self.world, f"plain-{each}", each, self.history, is_compacted=scenario.is_compacted)
            for each in payments
        ]
        for actor in (*self.ids, *self.writers):
            nursery.start_soon(actor.run)
        for number, each in enumerate((*payments, *receipts)):
            for reads_committed in (True, False):
                for anywhere in (True, False) if reads_committed else (chance.random() < 0.5,):
                    name = f"reader-{number}-{reads_committed:d}-{anywhere:d}"
                    nursery.start_soon(self._reader(name, each, reads_committed, anywhere=anywhere).run)
        if scenario.has_erasers:
            self._start_erasers(nursery, (*payments, *receipts))
        await super()._work(nursery)

    def _start_erasers(self, nursery: trio.Nursery, partitions: Sequence[Partition]) -> None:
        self.own_erasers: list[Eraser] = []
        for each in partitions:
            name = f"eraser-{each}"
            acknowledged = Acknowledged(self.history, each)
            eraser = Eraser(self.world, name, each.topic, acknowledged, random_of(self.scenario.seed, name))
            self.own_erasers.append(eraser)
            nursery.start_soon(eraser.run, self.faults.is_over)

    def _id(
        self, name: str, outputs: list[Partition], nursery: trio.Nursery, consumed: Sequence[Partition] = ()
    ) -> TransactionalId:
        return TransactionalId(
            self.world,
            name,
            outputs,
            self.history,
            self.faults.moments,
            self.scenario,
            nursery,
            consumed,
            is_member=self.scenario.has_members and bool(consumed),
        )

    def _reader(
        self, name: str, partition: Partition, reads_committed: bool, *, anywhere: bool = False
    ) -> TransactionReader:
        reader = Reader(name, reads_committed)
        self.history.readers.append(reader)
        chance = random_of(self.scenario.seed, name)
        return TransactionReader(
            self.world,
            name,
            partition,
            reader,
            chance,
            reads_anywhere=anywhere,
            may_skip=self.scenario.deletes_records,
        )

    def _start_movers(self, nursery: trio.Nursery) -> None:
        scenario = self.scenario
        if not scenario.has_movers:
            return
        for topic in random_of(scenario.seed, "moved").sample((TRANSACTIONS_TOPIC, PAYMENTS), 1):
            chance = random_of(scenario.seed, "mover", topic)
            mover = Mover(self.world, f"mover-{topic}", topic, 0, (scenario.replicas,), chance)
            self.movers.append(mover)
            nursery.start_soon(mover.run, self.faults.is_over)

    # the end

    async def _settle(self) -> None:
        self.faults.is_over.set()
        for each in self.ids:
            each.is_settling.set()
        for writer in self.writers:
            writer.settle()
        await super()._settle()

    def _unsettled(self) -> str | None:
        for each in (*self.ids, *self.writers):
            if not each.is_done:
                return f"{each.name} is not done: {each.last_reason}"
        if self.scenario.has_erasers and not all(each.is_done for each in self.own_erasers):
            return "records of transactions are still being deleted"
        return super()._unsettled() or self._unstable()

    def _unstable(self) -> str | None:
        """Returns which replica still has an open transaction, or None."""
        for number, spu in self.world.running_spus().items():
            for replica in spu.replicas:
                is_own = replica.topic in (PAYMENTS, RECEIPTS)
                if replica.last_stable_offset != replica.log.log_end and (is_own or not replica.settings.log.compacts):
                    return (
                        f"{replica.topic}-{replica.partition} on SPU {number} is stable up to "
                        f"{replica.last_stable_offset} of {replica.log.log_end}"
                    )
        return None

    async def _check_final(self) -> None:
        with trio.move_on_after(FINAL_SECONDS_MAX) as reading:
            for topic, count in ((PAYMENTS, self.scenario.payments), (RECEIPTS, self.scenario.receipts)):
                for number in range(count):
                    await self._read_finally(Partition(topic, number))
            for each in self.ids:
                for partition in each.consumed:
                    self.history.final_offsets[GROUP, partition] = await each.read_final_offset(partition)
        if reading.cancelled_caught:
            raise SimulationError("the final logs cannot be read")
        self.outcome.acknowledged += sum(
            send.outcome is transaction_history.Outcome.OK for send, _, _ in self.history.sends()
        )
        checker.check(self.history)
        await super()._check_final()

    def _log_start(self, partition: Partition) -> int:
        """Returns the largest log start of all replicas. Some replicas may not have deleted as much as others yet."""
        replicas = [each for process in self.world.running_spus().values() for each in process.replicas]
        return max(each.log.log_start for each in replicas if (each.topic, each.partition) == partition)

    async def _read_finally(self, partition: Partition) -> None:
        """Reads a whole partition from its leader, and what is committed also from the other replicas."""
        began = trio.current_time()
        committed = self._reader(f"last of {partition}", partition, reads_committed=True)
        await committed.read_all()
        uncommitted = self._reader(f"last of all of {partition}", partition, reads_committed=False)
        stored: list[Stored] = []
        markers: list[Marker] = []
        next_offset = 0
        for response in await uncommitted.read_all():
            records, ends = stored_of(response, next_offset)
            next_offset = max(next_offset, response.next_offset or 0)
            stored += records
            markers += ends
        # In this order, because a transaction without records here may be aborted in between, which adds a marker.
        log_end = await committed.log_end(reads_committed=False)
        stable_end = await committed.log_end(reads_committed=True)
        start = self._log_start(partition)
        records = [each for each in committed.records if each.offset >= start]
        is_compacted = self.scenario.is_compacted
        final = FinalLog(partition, records, stored, markers, start, stable_end, log_end, is_compacted, began)
        self.history.final_logs.append(final)
        keys = keys_of(self.history)
        for spu, process in sorted(self.world.running_spus().items()):
            if any((each.topic, each.partition) == partition and not each.is_leader for each in process.replicas):
                other = self._reader(f"last of {partition} on SPU {spu}", partition, reads_committed=True)
                other.seek(start)
                await other.read_all(spu)
                found = [each for each in other.records if each.offset >= start]
                is_same = found == records
                if is_compacted:  # each replica compacts by itself, and keeps the last record of each key
                    is_same = last_offsets(found, keys) == last_offsets(records, keys)
                if not is_same:
                    raise SimulationError(
                        f"SPU {spu} shows {len(found)} committed records of {partition}, and its leader {len(records)}"
                    )
