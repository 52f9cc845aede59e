"""Simulates one seed with triggers: a cluster, producers and replicas under faults, and the checks at the end."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import trio
from simulation.simulation import TOPIC, Outcome, Run, SimulationError, simulate
from simulation.world import Print

from tailrace.broker.groups.common.coordinator_records import decode_record
from tailrace.broker.replicas.replica import Replica
from tailrace.client.transaction_states import COMMITTED, EndsBehind
from tailrace.cluster.coordinators import GROUPS_TOPIC
from tailrace.cluster.stream_state.commit_epochs import parse_commit_epoch
from tailrace.protocol.batches.record_batch import BatchHeader, iterate
from tailrace.protocol.batches.records import Record, read_records
from tailrace.protocol.batches.transaction_markers import marker_of
from tailrace.protocol.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue

from .simulated_replicas import SimulatedReplicas, reporting
from .stopped_processes import ProcessHost
from .trigger_faults import catalogue_of
from .trigger_history import Commit, TriggerError, TriggerHistory, check_commits, check_exactly_once, check_overlaps
from .trigger_scenario import GROUP, OUTPUT_TOPIC, TriggerScenario

ATTEMPTS = 4
STOP_SECONDS_MAX = 30.0


def simulate_triggers(scenario: TriggerScenario, show: Print | None = None) -> Outcome:
    return simulate(scenario, show, TriggerRun)


class TriggerRun(Run):
    scenario: TriggerScenario

    @property
    def group_kinds(self) -> Sequence[str]:
        return ()

    async def run(self) -> None:
        self.host = ProcessHost()
        self.history = TriggerHistory(attempts=ATTEMPTS, has_record=self._has_record)
        with self.host.installed(), reporting(self.history):
            await super().run()

    async def _create_topic(self) -> None:
        await super()._create_topic()
        await self._create(OUTPUT_TOPIC, 1)

    async def _work(self, nursery: trio.Nursery) -> None:
        self.host.root = nursery.cancel_scope
        self.replicas = SimulatedReplicas(
            self.world, nursery, self.host, self.scenario, TOPIC, self.history, self.broken
        )
        self.catalogue = catalogue_of(self.replicas)
        await self._create(self.replicas.config.dead_letter_topic, self.scenario.partitions)
        if self.scenario.is_deployed:
            await self.replicas.deploy(self.scenario.wanted)
        self.replicas.start_all()
        await super()._work(nursery)

    # the end

    def _repair(self) -> None:
        super()._repair()
        for each in list(self.host.stopped):
            each.resume()
        self.replicas.start_all()

    def _unsettled(self) -> str | None:
        return super()._unsettled() or self.history.unsettled(self._ends()) or self._uncommitted()

    def _ends(self) -> dict[int, int]:
        return {replica.partition: replica.high_watermark for replica in self._leaders_of(TOPIC)}

    def _uncommitted(self) -> str | None:
        committed = {each.shard: each.offset for each in self._commits()}
        for shard, end in self._ends().items():
            if committed.get(shard) != end:
                return f"{committed.get(shard)} is committed in shard {shard}, which ends at {end}"
        return None

    async def _check_final(self) -> None:
        with trio.move_on_after(STOP_SECONDS_MAX) as stopping:
            async with trio.open_nursery() as nursery:
                for machine in self.replicas.machines:
                    nursery.start_soon(self.replicas.stop, machine)
        if stopping.cancelled_caught:
            raise SimulationError("a replica does not stop")
        check_overlaps(self.history.handlings)
        check_commits(list(self._commits()), self.history.claims)
        self._check_outputs()
        await super()._check_final()

    def _check_outputs(self) -> None:
        outputs = Counter(record.value or b"" for record in self._records(OUTPUT_TOPIC))
        letters = Counter(record.value or b"" for record in self._records(self.replicas.config.dead_letter_topic))
        if self.scenario.is_exactly_once:
            check_exactly_once(outputs, letters, self.history.outputs)
            return
        if lost := self.history.outputs - outputs.keys():
            raise TriggerError(f"{len(lost)} outputs of handled events are lost: {sorted(lost)[:3]}")
        if lost := self.history.dead - letters.keys():
            raise TriggerError(f"{len(lost)} dead letters are lost: {sorted(lost)[:3]}")

    # logs

    def _commits(self) -> Iterator[Commit]:
        """Yields what the coordinator has stored, in order."""
        for record in self._records(GROUPS_TOPIC):
            decoded = decode_record(record.key, record.value)
            key, value = (None, None) if decoded is None else (decoded.key, decoded.value)
            if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
                found = parse_commit_epoch(value.metadata)
                if key.group != GROUP or key.topic != TOPIC or found is None:
                    raise TriggerError(f"only the trigger commits, but there is {key} with {value}")
                yield Commit(key.partition, value.offset, found.epoch, found.member_id)

    def _records(self, topic: str) -> Iterator[Record]:
        for replica in self._leaders_of(topic):
            yield from _committed_records(replica)

    def _has_record(self, shard: int, offset: int) -> bool:
        """Whether an offset has a record; looks into any log that has the offset."""
        for spu in self.world.running_spus().values():
            for replica in spu.replicas:
                if replica.topic == TOPIC and replica.partition == shard and replica.high_watermark > offset:
                    found = replica.log.read(offset, 1, offset + 1, at_least_one=True, passes_empty=True)
                    if found is not None:
                        _, header = next(iterate(bytes(found.read())))
                        return not header.is_control
        return True

    def _leaders_of(self, topic: str) -> list[Replica]:
        return [
            replica
            for spu in self.world.running_spus().values()
            for replica in spu.replicas
            if replica.topic == topic and replica.is_recovered_leader
        ]


def _committed_records(replica: Replica) -> Iterator[Record]:
    """Yields the records that a reader of committed records gets."""
    batches = list(_batches(replica))
    ends = EndsBehind(0)
    for header, data in batches:
        ends.note(header, marker_of(header, data))
    for header, data in batches:
        if not header.is_control and ends.state_of(header, None) in (None, COMMITTED):
            yield from read_records(data)


def _batches(replica: Replica) -> Iterator[tuple[BatchHeader, bytes]]:
    log, offset, end = replica.log, replica.log.log_start, replica.high_watermark
    while offset < end and (found := log.read(offset, 1 << 20, end, at_least_one=True, passes_empty=True)) is not None:
        data: Any = bytes(found.read())
        for position, header in iterate(data):
            offset = header.next_offset
            yield header, data[position : position + header.size]
