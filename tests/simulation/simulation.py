"""Simulates one seed: a cluster under load and faults, and the checks after everything is repaired."""

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import count
from typing import Any

import trio
from msgspec import Struct

from tailrace.broker.spu_server import SpuServer
from tailrace.cluster.coordinators import GROUPS_TOPIC
from tailrace.controller.key_value.interface import Change
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.report_live_replicas import ReportedPartition
from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tailrace.storage.directory.layout import Kind, clean_shutdown_path
from tailrace.storage.verification.replica_verification import ReplicaVerification
from tailrace.storage.verification.verification import replicas_below, verify_checkpoints

from .consumer import Consumer
from .determinism import random_of, run_seeded
from .eraser import Eraser
from .faults import Catalogue, FaultContext, carry_out
from .faulty_network import SimulatedConnection
from .files import Keep
from .flips import flipped_logs, logs_to_repair, will_doubt
from .group_faults import GROUP_CATALOGUE
from .group_load import GroupLoad
from .grower import Grower
from .history import PartitionHistory
from .invariants import PARTITION_PREFIX, InvariantError, Invariants, contents_of, store_incarnation
from .meddler import Meddler
from .moments import PARTITION_CHANGE
from .mover import Mover
from .outages import OUTAGES
from .patient_client import PatientClient, RetryError
from .peer_watch import PeerWatch
from .producer import ALL, LEADER_ALONE, Producer
from .quorum_reader import QuorumReader
from .report_watch import ReportWatch
from .scenario import Scenario
from .shelf_files import below_data
from .stray_reader import StrayReader
from .turns import early_copies, small_turns
from .world import DATA_DIRECTORY, Machine, Print, World

TOPIC = "orders"
FAULTS_OF_SERVERS: Catalogue = {**GROUP_CATALOGUE, **OUTAGES}
KEYS = 5
"""The number of different keys in compacted logs."""
LOOK_SECONDS = 0.04
CREATION_SECONDS_MAX = 20.0
SETTLE_SECONDS_MAX = 60.0
"""How long the cluster may take to settle after the faults."""
SHELVES_SECONDS_MAX = 20.0
PATIENCE_SECONDS = 2.0


class SimulationError(AssertionError):
    """What a seed has shown to be wrong."""


class Outcome(Struct):
    scenario: Scenario
    failure: BaseException | None = None
    acknowledged: int = 0
    faults: int = 0
    elections: int = 0
    copied_bytes: int = 0
    """The bytes that replicas copied from followers."""
    shelf_copies: int = 0
    """The number of complete copies of shelves at the end."""
    seconds: float = 0.0
    """The simulated duration."""
    digest: int = 0
    """A digest of everything that was sent, which is equal for equal seeds."""


def simulate(scenario: Scenario, show: Print | None = None, kind: "type[Run] | None" = None) -> Outcome:
    """Simulates a scenario; `kind` is the kind of run, if the scenario needs another one than `Run`."""
    outcome = Outcome(scenario)
    try:
        with (
            small_turns(scenario.seed) if scenario.has_small_turns else nullcontext(),
            early_copies(scenario.seed) if scenario.copies_early else nullcontext(),
        ):
            run_seeded(scenario.seed, (kind or Run)(scenario, outcome, show).run)
    except BaseException as error:
        failure = _first(error)
        if not isinstance(failure, Exception):
            raise failure from None  # the run was cancelled from outside, which says nothing about the seed
        outcome.failure = failure
    return outcome


def _first(error: BaseException) -> BaseException:
    """Returns the first error in the nested exception groups of nurseries."""
    while isinstance(error, BaseExceptionGroup):
        error = next((each for each in error.exceptions if not isinstance(each, trio.Cancelled)), error.exceptions[0])
    return error


class Run:
    """One run: the cluster, its load, its faults and its checks."""

    catalogue: Catalogue = FAULTS_OF_SERVERS

    def __init__(self, scenario: Scenario, outcome: Outcome, show: Print | None) -> None:
        self.scenario = scenario
        self.outcome = outcome
        self.show = show
        self.damaged: dict[int, str] = {}
        """The former store incarnations of SPUs that have lost unsynced data, and have not caught up since."""
        self.unopened: set[int] = set()
        """SPUs with logs that did not open in their last run."""
        self.broken_since: dict[int, float] = {}
        """When each SPU with a failed replica was first seen."""
        self.started: list[SpuServer] = []
        """Every process of an SPU that was started."""
        self.broken: list[str] = []
        """Sentences about errors that were detected where nothing can be raised."""

    async def run(self) -> None:
        scenario = self.scenario
        async with trio.open_nursery() as nursery:
            self.world = World(
                scenario.seed,
                nursery,
                spus=scenario.spus,
                scs=scenario.scs,
                buffer_bytes=scenario.buffer_bytes,
                link_seconds=scenario.link_seconds,
                sync_seconds=scenario.sync_seconds,
                store_seconds=scenario.store_seconds,
                patience_seconds=scenario.patience_seconds,
                broker=scenario.broker,
                replace_after_seconds=scenario.replace_after_seconds,
                show=self.show,
            )
            self.histories = [
                PartitionHistory(number, is_retained=scenario.is_retained) for number in range(scenario.partitions)
            ]
            retention = scenario.topic if scenario.is_retained else {}
            self.invariants = Invariants(
                self.world,
                self.histories,
                topic=TOPIC,
                policy=scenario.policy,
                may_lose=scenario.may_lose,
                retention=retention,
            )
            self.world.on_stored = self._look_at_stored
            self.world.on_started = lambda number, server: self.started.append(server)
            machines = {machine.host: machine for machine in self.world.spus.values()}
            self.peers = PeerWatch(machines, self.broken.append)
            self.reports = ReportWatch(self._look_at_report)
            self.world.internet.on_sent = self._look_at_sent
            self.faults = FaultContext(
                self.world, self._may_lose, self._on_lost, self._may_flip, self._may_flip_lone, self._may_fail
            )
            self.groups = GroupLoad(
                self.world,
                TOPIC,
                self.histories,
                scenario.partitions_added,
                self.group_kinds,
                scenario.timeouts,
                self.faults.moments,
                nursery,
            )
            await self.world.register()
            self.world.start_everything()
            nursery.start_soon(self._look)
            await self._create_topic()
            await self._work(nursery)
            await self._settle()
            await self._check_final()
            self.outcome.seconds = trio.current_time()
            await self._stop_cleanly()
            self.outcome.digest = self.world.internet.digest
            nursery.cancel_scope.cancel()

    # load

    @property
    def group_kinds(self) -> Sequence[str]:
        """The kinds of the groups that consume the topic."""
        return self.scenario.groups

    async def _create_topic(self) -> None:
        await self._create(TOPIC, self.scenario.partitions - self.scenario.partitions_added)

    async def _create(self, name: str, partitions: int) -> None:
        client = PatientClient(self.world, "admin", random_of(self.scenario.seed, "admin"))
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in self.scenario.topic.items()]
        topic = CreatableTopic(name, partitions, self.scenario.replicas, configs=configs)
        request = CreateTopicsRequest([topic], timeout_ms=1500)
        done = False
        while not done:
            if trio.current_time() > CREATION_SECONDS_MAX:
                raise SimulationError(f"topic {name} cannot be created: {client.last_reason}")
            async with client.trying(), client.connected(1) as connected:
                version = API_TABLE[ApiKey.CREATE_TOPICS].max_version
                answered = (await client.ask(connected, ApiKey.CREATE_TOPICS, version, request)).topics[0]
                done = answered.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
                if not done:
                    raise RetryError(f"{ErrorCode(answered.error_code).name}: {answered.error_message}")

    async def _work(self, nursery: trio.Nursery) -> None:
        """Works until all faults are over; producers may still have more to send."""
        scenario = self.scenario
        self.producers: list[Producer] = []
        self.erasers: list[Eraser] = []
        self.movers: list[Mover] = []
        for history in self.histories:
            number = history.partition
            kinds = [("idempotent", True, ALL), ("plain", False, ALL), ("hasty", False, LEADER_ALONE)]
            for kind, is_idempotent, acks in kinds[: 1 if scenario.groups else 2 + scenario.is_hasty]:
                name = f"{kind}-{number}"
                producer = Producer(
                    self.world,
                    name,
                    TOPIC,
                    history,
                    random_of(scenario.seed, name),
                    batches=scenario.batches,
                    pause_seconds=scenario.faults_end / scenario.batches,
                    # A replica that has lost data may refuse everything that an idempotent producer sends then.
                    is_idempotent=is_idempotent and not scenario.may_lose,
                    keys=KEYS if scenario.is_compacted else 0,
                    acks=acks,
                )
                self.producers.append(producer)
                nursery.start_soon(producer.run)
            if not scenario.groups:
                chance = random_of(scenario.seed, "tail", number)
                anywhere = random_of(scenario.seed, "anywhere", number).random() < 0.4 and not scenario.may_lose
                tail = Consumer(self.world, f"tail-{number}", TOPIC, history, chance, reads_anywhere=anywhere)
                nursery.start_soon(tail.run)
                nursery.start_soon(self._read_again_and_again, history)
                name = f"stray-{number}"
                stray = StrayReader(self.world, name, TOPIC, history, random_of(scenario.seed, name))
                nursery.start_soon(stray.run)
            if scenario.has_quorum_readers:
                nursery.start_soon(self._read_from_quorums, history)
            if scenario.has_erasers:
                chance = random_of(scenario.seed, "eraser", number)
                eraser = Eraser(self.world, f"eraser-{number}", TOPIC, history, chance)
                self.erasers.append(eraser)
                nursery.start_soon(eraser.run, self.faults.is_over)
        self._start_movers(nursery)
        self.growers: list[Grower] = []
        if scenario.partitions_added:
            counts = range(scenario.partitions - scenario.partitions_added + 1, scenario.partitions + 1)
            chance = random_of(scenario.seed, "grower")
            grower = Grower(self.world, TOPIC, counts, self.faults.moments, chance)
            self.growers.append(grower)
            nursery.start_soon(grower.run, self.faults.is_over)
        self.meddlers: list[Meddler] = []
        if scenario.has_meddlers:
            chance = random_of(scenario.seed, "meddler")
            meddler = Meddler(self.world, TOPIC, _configs_to_set(scenario), chance)
            self.meddlers.append(meddler)
            nursery.start_soon(meddler.run, self.faults.is_over)
        self.groups.start()
        if scenario.faults or scenario.groups:
            await carry_out_until(self.faults, self.catalogue, scenario.faults, scenario.faults_end)
        self.outcome.faults = len(self.faults.done)

    def _start_movers(self, nursery: trio.Nursery) -> None:
        scenario = self.scenario
        topic = GROUPS_TOPIC if scenario.groups else TOPIC
        partitions = scenario.partition_count - scenario.partitions if scenario.groups else scenario.partitions
        may_have_fewer = scenario.groups or not scenario.policy.startswith("nrw")
        sizes = (scenario.replicas - bool(may_have_fewer), scenario.replicas, scenario.replicas)
        for number in range(partitions if scenario.has_movers else 0):
            chance = random_of(scenario.seed, "mover", number)
            mover = Mover(self.world, f"mover-{number}", topic, number, sizes, chance)
            self.movers.append(mover)
            nursery.start_soon(mover.run, self.faults.is_over)

    async def _read_again_and_again(self, history: PartitionHistory) -> None:
        """Reads everything with a new consumer, again and again."""
        chance = random_of(self.scenario.seed, "reader", history.partition)
        for number in range(1000):
            await trio.sleep(chance.uniform(1, 4))
            name, anywhere = (
                f"reader-{history.partition}-{number}",
                chance.random() < 0.5 and not self.scenario.may_lose,
            )
            consumer = Consumer(self.world, name, TOPIC, history, chance, reads_anywhere=anywhere)
            with trio.move_on_after(4):
                await consumer.read_all()

    async def _read_from_quorums(self, history: PartitionHistory) -> None:
        """Reads from quorums, now and then with a new reader, from the beginning or from the end."""
        scenario, chance = self.scenario, random_of(self.scenario.seed, "quorum reader", history.partition)
        knows_members = scenario.policy != "live" and not scenario.has_movers
        for number in count():
            name = f"quorum-{history.partition}-{number}"
            reader = QuorumReader(self.world, name, TOPIC, history, chance, knows_members=knows_members)
            with trio.move_on_after(chance.uniform(1, 5)):
                await reader.run()

    # checks

    async def _look(self) -> None:
        while True:
            await self.invariants.check()
            self._check_crashed()
            if self.broken:
                raise InvariantError(self.broken[0])
            self._forget_damage()
            self._note_unopened()
            await trio.sleep(LOOK_SECONDS)

    def _look_at_sent(self, connection: SimulatedConnection, data: bytes) -> None:
        self.peers.on_sent(connection, data)
        self.reports.on_sent(connection, data)

    def _look_at_report(self, reported: ReportedPartition) -> None:
        """Checks what a leader has just reported; the leader must not fail because of an error here."""
        try:
            self.invariants.on_report(reported)
        except InvariantError as error:
            self.broken.append(str(error))

    def _look_at_stored(self, changes: Sequence[Change]) -> None:
        """Checks what an SC has just stored; the SC must not fail because of an error here."""
        try:
            self.invariants.on_stored(changes)
        except InvariantError as error:
            self.broken.append(str(error))
        if any(change.key.startswith(PARTITION_PREFIX) for change in changes):
            self.faults.moments.reach(PARTITION_CHANGE)

    def _check_crashed(self) -> None:
        if self.world.crashed:
            raise SimulationError("a server made a mistake") from _first(self.world.crashed[0])

    def _may_lose(self, spu: int, keep: Keep) -> bool:
        """Whether another store is sure to have what this one may lose, as no policy promises more."""
        if self.scenario.may_lose:
            return True
        if keep == "nothing" and not self.invariants.shelves_survive({*self._flipped(), spu}):
            return False
        if self.scenario.is_synced_before_acknowledging and keep != "nothing":
            return True
        damaged = {*self.damaged, *self._harmed(), spu}
        if self.scenario.policy != "live" and len(damaged) >= _writes(self.scenario):
            return False
        if self.scenario.policy != "live" and not self.scenario.groups:
            return True
        live_sets = [*self.invariants.stored_live().values(), *self.invariants.proposed_live()]
        return all(live - damaged for live in live_sets)

    def _may_flip(self, spu: int) -> bool:
        """Whether bits may flip on this SPU's disk, because only one copy of anything may be damaged at a time."""
        live_sets = [*self.invariants.stored_live().values(), *self.invariants.proposed_live()]
        return not self.damaged and self._harmed() <= {spu} and all(live - {spu} for live in live_sets)

    def _may_flip_lone(self, spu: int) -> bool:
        """Whether bits may flip in what only this SPU has.

        With `live`, what the only live replica has is committed soon. With other policies, no store commits anything
        alone; but if a store is in doubt, nobody can tell that it never had the records.
        """
        if self.scenario.policy == "live":
            return self._may_flip(spu) and not self.invariants.is_any_in_doubt()
        return not self.damaged and self._harmed() <= {spu} and not self._may_lack()

    def _may_fail(self, spu: int) -> bool:
        """Whether this SPU's disk may fail; it may then lack records that only another damaged SPU has."""
        return self._harmed() <= {spu}

    def _may_lack(self) -> bool:
        """Whether some store may lack what it acknowledged, because its disk fails or has failed."""
        fails = any(machine.files.syncs_fail for machine in self.world.spus.values())
        failed = any(each.offline_reason for spu in self.world.running_spus().values() for each in spu.replicas)
        return fails or failed or self.invariants.is_any_in_doubt()

    def _flipped(self) -> set[int]:
        """Returns the SPUs that have flipped bits to repair."""
        return {number for number, machine in self.world.spus.items() if flipped_logs(machine)}

    def _harmed(self) -> set[int]:
        """Returns the SPUs whose damage limits further faults.

        They have flipped bits; or a log that did not open, because the next leader may need it if all others are in
        doubt; or they will be in doubt when they start.
        """
        forgetful = {number for number, machine in self.world.spus.items() if will_doubt(machine)}
        return self._flipped() | forgetful | self.unopened

    def _note_unopened(self) -> None:
        running = self.world.running_spus()
        self.unopened -= running.keys()
        self.unopened |= {number for number, process in running.items() if process.replicas.damaged}

    def _on_lost(self, spu: int) -> None:
        """Records that an SPU is about to lose data, which may include the reason for a deletion by retention."""
        self.invariants.check_retention()
        self.damaged[spu] = store_incarnation(self.world.spus[spu])

    def _forget_damage(self) -> None:
        is_live = self.scenario.policy == "live"
        ways = {is_live, True} if self.scenario.groups else {is_live}
        for spu, before in list(self.damaged.items()):
            if all(self.invariants.has_caught_up(spu, before, by_live_set=way) for way in sorted(ways)):
                del self.damaged[spu]

    # end

    async def _settle(self) -> None:
        """Repairs everything, and waits until the cluster has settled."""
        self.faults.is_over.set()
        await trio.sleep(0.01)  # the ends of lasting faults take effect
        self._repair()
        self.groups.settle()
        await self._wait_until_settled()

    async def _wait_until_settled(self) -> None:
        """Returns when the cluster has settled, which holds at least until another task runs."""
        with trio.move_on_after(SETTLE_SECONDS_MAX) as waiting:
            while (reason := self._unsettled()) is not None:
                self._restart_broken()
                await trio.sleep(0.25)
        if waiting.cancelled_caught:
            raise SimulationError(f"the cluster does not settle: {reason}")

    def _repair(self) -> None:
        for number in self.world.scs:
            self.world.start_sc(number)
        for number in self.world.spus:
            self.world.start_spu(number)

    def _restart_broken(self) -> None:
        """Restarts SPUs with failed replicas, as an operator does who sees in the metrics that a disk has failed."""
        now = trio.current_time()
        broken = [
            number
            for number, spu in self.world.running_spus().items()
            if spu.replicas.damaged or any(replica.offline_reason for replica in spu.replicas)
        ]
        self.broken_since = {number: self.broken_since.get(number, now) for number in broken}
        for number in broken:
            if now >= self.broken_since[number] + PATIENCE_SECONDS:
                del self.broken_since[number]
                self.world.kill(self.world.spus[number])
        self._repair()

    def _unsettled(self) -> str | None:
        for producer in self.producers:
            if not producer.is_done:
                return f"{producer.name} is not done: {producer.client.last_reason}"
        if not all(eraser.is_done for eraser in self.erasers):
            return "records are still being deleted"
        if not all(mover.is_done for mover in self.movers):
            return "replicas are still being moved"
        if not all(grower.is_done for grower in self.growers):
            return "partitions are still to be added"
        if not all(meddler.is_done for meddler in self.meddlers):
            return "the topic is still being recreated"
        reason = self.invariants.unsettled(self.scenario.partition_count) or self.groups.unsettled()
        if reason is None:
            for number in self.world.spus:
                if flipped := logs_to_repair(self.world, number):
                    return f"flipped bits are not repaired on SPU {number}: {flipped}"
        return reason

    async def _check_final(self) -> None:
        scenario = self.scenario
        for history in self.histories:
            number = history.partition
            consumer = Consumer(
                self.world, f"last-{number}", TOPIC, history, random_of(self.scenario.seed, "last", number)
            )
            with trio.move_on_after(20) as reading:
                await consumer.read_all()
            if reading.cancelled_caught:
                raise SimulationError(f"partition {number} cannot be read: {consumer.client.last_reason}")
            if scenario.is_retained:
                history.on_deleting(self.invariants.log_start(number))
            history.check_final(consumer.records)
            self.outcome.acknowledged += len(history.acknowledged)
        await self.groups.check_final()
        self.outcome.elections = self.invariants.elections
        self.outcome.copied_bytes = sum(
            server.spu.metrics.copied_bytes for server in self.started if server.spu is not None
        )
        await self._wait_until_settled()  # members may have joined or committed again meanwhile
        self._compare_logs()
        await self._check_shelves()

    async def _check_shelves(self) -> None:
        """Checks that a store that loses its copy of a shelf gets it again soon."""
        ends = trio.current_time() + SHELVES_SECONDS_MAX
        while True:
            try:
                self.outcome.shelf_copies = await self.invariants.check_shelves()
            except InvariantError:
                if trio.current_time() > ends:
                    raise
                await trio.sleep(0.5)
            else:
                return

    def _compare_logs(self) -> None:
        scenario = self.scenario
        logs: dict[object, list[object]] = {}
        starts: dict[object, int] = {}
        for spu in self.world.running_spus().values():
            for replica in spu.replicas:
                starts[replica.key] = max(starts.get(replica.key, 0), replica.log.log_start)
        for number, spu in self.world.running_spus().items():
            for replica in spu.replicas:
                start = starts[replica.key] if scenario.is_retained else replica.log.log_start
                entries: list[object] = list(contents_of(replica, start))
                first = logs.setdefault(replica.key, entries)
                if first != entries:
                    raise InvariantError(f"in the end, {replica.topic}-{replica.partition} on SPU {number} differs")

    async def _stop_cleanly(self) -> None:
        # An SPU never opens what left the replica set while it was down, and what was not synced of it may be lost.
        held = {
            self.world.spus[number].host: {"/".join(map(str, replica.key)) for replica in spu.replicas}
            | {below_data(duty.key) for duty in spu.shelf_keeper.copies.duties if number in duty.shelf.stores}
            for number, spu in self.world.running_spus().items()
        }
        with trio.move_on_after(30) as stopping:
            async with trio.open_nursery() as nursery:
                for machine in self.world.spus.values():
                    nursery.start_soon(self.world.stop, machine)
        if stopping.cancelled_caught:
            raise SimulationError("an SPU does not stop")
        self._check_crashed()
        for machine in self.world.spus.values():
            self._verify_disk(machine, held[machine.host])

    def _verify_disk(self, machine: Machine, held: set[str]) -> None:
        """Checks a disk as `tailrace log verify` does, after a clean stop and a power failure."""
        files = machine.files.crash("synced")
        if not files.exists(clean_shutdown_path(DATA_DIRECTORY)):
            raise SimulationError(f"{machine.host} stopped without a clean-shutdown mark")
        findings = list(verify_checkpoints(files, DATA_DIRECTORY))
        for directory in replicas_below(files, DATA_DIRECTORY):
            if "/".join(directory.split("/")[-2:]) in held:
                findings += ReplicaVerification(files, directory).findings()
        # A producer snapshot that a power failure tore stays, but is not trusted. The next use detects flipped bits in
        # an index, and the next scrub detects what was repaired and never synced.
        flipped = files.flipped()
        damage = [
            each
            for each in findings
            if each.is_damage and not each.path.endswith(Kind.PRODUCERS) and each.path not in flipped
        ]
        if damage:
            raise SimulationError(f"on the disk of {machine.host}: {damage[0].path}: {damage[0].sentence}")


def _configs_to_set(scenario: Scenario) -> dict[str, Sequence[str]]:
    """Returns configs that may have any value at any time, because no guarantee depends on them."""
    configs: dict[str, Sequence[str]] = {
        "segment.ms": ("100", "500", "100000"),
        "lrs.max.lag.ms": ("400", "1000", "3000"),
        "lrs.max.lag.records": ("3", "30", "10000"),
    }
    if scenario.replicas > 1:
        configs["min.insync.replicas"] = ("1", "2")
    if not scenario.is_synced_before_acknowledging:
        configs["flush.messages"] = ("1", "3", "1000000")
    if not scenario.is_retained:
        configs["internal.segment.bytes"] = ("200", "1000", "4000", "1000000")
    return configs


def _writes(scenario: Scenario) -> int:
    if scenario.policy == "majority":
        return (scenario.replicas - scenario.has_movers) // 2 + 1
    return int(scenario.policy.rpartition(",")[2])


async def carry_out_until(context: FaultContext, catalogue: Catalogue, faults: Any, ends: float) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(carry_out, context, catalogue, faults)
        await trio.sleep_until(ends)
        context.is_over.set()
