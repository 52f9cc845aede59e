"""The replicas of a trigger in a simulation: real ones, each on a machine of its own, with simulated workers.

What they claim and commit, and what brokers acknowledge, is reported to a `TriggerHistory`.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import trio
from msgspec.structs import replace
from simulation.determinism import random_of
from simulation.faulty_network import ProcessNetwork
from simulation.files import SimulatedFiles
from simulation.world import HostClock, World, sc_address

from tailrace.client.record_producer import RecordProducer
from tailrace.client.transactions.transactional_producer import TransactionalProducer
from tailrace.controller.key_value.interface import NO_VERSION, Put
from tailrace.controller.objects.objects import FunctionSnapshot, Trigger, TriggerSpec
from tailrace.controller.state.object_codec import decode, encode, key_of
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.seams import Seams
from tailrace.trigger.config.trigger_config import Guarantee, Retry, SeekTo, TriggerConfig
from tailrace.trigger.replica.group_offsets import Claim, GroupOffsets, Mark
from tailrace.trigger.replica.replica_setup import ReplicaServers, replica_of
from tailrace.trigger.replica.transactional_output import TransactionalOutput
from tailrace.trigger.replica.trigger_replica import Replica, ReplicaName

from .simulated_workers import Handler, SimulatedWorkers
from .stopped_processes import ProcessHost, StoppableProcess, current_process
from .trigger_history import TriggerError, TriggerHistory
from .trigger_scenario import GROUP, OUTPUT_TOPIC, TriggerScenario

RESTART_SECONDS = 0.2
"""How long a supervisor waits before it restarts a replica that has ended."""


class ReplicaProcess:
    """One process of a replica."""

    def __init__(self, process: StoppableProcess, network: ProcessNetwork) -> None:
        self.process = process
        self.network = network
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.is_killed = False
        self.stop_began_at = math.inf
        self.workers: SimulatedWorkers
        self.replica: Replica | None = None


class ReplicaMachine:
    """The machine of one replica, on which its processes run one after the other."""

    def __init__(self, number: int) -> None:
        self.name = f"replica{number}"
        self.host = f"replica-{number}"
        self.clock = HostClock()
        self.running: ReplicaProcess | None = None
        self.starts = 0


class SimulatedReplicas:
    def __init__(
        self,
        world: World,
        nursery: trio.Nursery,
        host: ProcessHost,
        scenario: TriggerScenario,
        topic: str,
        history: TriggerHistory,
        broken: list[str],
    ) -> None:
        """Prepares machines. Unexpected errors become sentences in `broken`."""
        self.machines = [ReplicaMachine(number) for number in range(1, scenario.members + 1)]
        self.history = history
        self.is_deployed = scenario.is_deployed
        self._world = world
        self._nursery = nursery
        self._host = host
        self._scenario = scenario
        self._broken = broken
        self._logger = world._logger
        self.config = TriggerConfig(
            name="billing",
            topic=topic,
            group=GROUP,
            replicas=scenario.wanted,
            max_workers=scenario.workers,
            seek_to=SeekTo.EARLIEST,
            session_timeout=scenario.session_seconds,
            heartbeat_interval=scenario.session_seconds / 4,
            commit_interval=scenario.commit_seconds,
            retry=Retry(attempts=history.attempts, backoff=(0.05, 0.2)),
            stop_timeout=1.0,
            guarantee=Guarantee.EXACTLY_ONCE if scenario.is_exactly_once else Guarantee.AT_LEAST_ONCE,
        )

    async def deploy(self, count: int) -> None:
        """Stores a trigger with so many configured replicas, as an SC does that gets the command."""
        function = FunctionSnapshot("billing.py", "")
        spec = TriggerSpec(self.config.topic, GROUP, function, replicas=count)
        name = self.config.name
        while True:
            key = key_of(Trigger(name, spec))
            entry = await self._world.store.get(key)
            found = None if entry is None else decode(key, entry.value, entry.version)
            assert found is None or isinstance(found, Trigger)
            deployed = Trigger(name, spec) if found is None else replace(found, spec=spec)
            version = NO_VERSION if entry is None else entry.version
            (written,) = await self._world.store.write([Put(key, encode(deployed), version)])
            if written is not None:
                return

    def machine(self, target: int) -> ReplicaMachine:
        """Returns the machine that a fault has chosen."""
        return self.machines[target % len(self.machines)]

    def start(self, machine: ReplicaMachine) -> None:
        """Starts the replica of a machine, unless it runs."""
        if machine.running is not None:
            return
        machine.starts += 1
        process = StoppableProcess(self._host, f"{machine.name}#{machine.starts}")
        machine.running = running = ReplicaProcess(process, self._world.internet.process_on(machine.host))
        chance = random_of(self._scenario.seed, process.name)
        scenario = self._scenario
        handler = Handler(chance, OUTPUT_TOPIC, slow=scenario.slow, slow_seconds=scenario.slow_seconds)
        running.workers = SimulatedWorkers(
            self._nursery, self._host, process, self.config.max_workers, handler, self.history, self._broken.append
        )
        with process.entered():
            self._nursery.start_soon(self._run, machine, running, name=process.name)

    def start_all(self) -> None:
        """Starts all replicas that do not run."""
        for each in self.machines:
            self.start(each)

    async def _run(self, machine: ReplicaMachine, running: ReplicaProcess) -> None:
        name = running.process.name
        seed = random_of(self._scenario.seed, name, "chance").getrandbits(64)
        seams = Seams(running.network, SimulatedFiles(), machine.clock, RandomChance(seed))
        servers = ReplicaServers([sc_address(number) for number in self._world.scs])
        logger = self._logger.bind(at=name)
        try:
            with running.scope:
                async with replica_of(
                    ReplicaName(self.config.name, machine.name), self.config, running.workers, servers, seams, logger
                ) as running.replica:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(running.workers.run)
                        await running.replica.run()
                        nursery.cancel_scope.cancel()
                    self._note_departure(running)
        except Exception as error:
            if not running.is_killed:
                self._on_error(name, error)
        finally:
            running.workers.kill_all()
            running.network.die()
            running.ended.set()
            if machine.running is running:
                machine.running = None

    def _on_error(self, name: str, error: BaseException) -> None:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        self._broken.append(str(error) if isinstance(error, TriggerError) else f"{name} ended: {error!r}")

    def _note_departure(self, running: ReplicaProcess) -> None:
        """Notes an orderly departure. It committed everything, unless it had to give up after `stop_timeout`."""
        if self.config.is_exactly_once:
            return  # its last transaction may be lost, and is then handled again
        if trio.current_time() < running.stop_began_at + self.config.stop_timeout:
            self.history.on_left(running.process.name)

    def kill(self, machine: ReplicaMachine) -> None:
        """Kills the replica with SIGKILL."""
        running = self.take(machine)
        if running is not None:
            self.kill_process(running)

    def take(self, machine: ReplicaMachine) -> ReplicaProcess | None:
        """Makes the machine forget its process, which runs on, so that another one can be started."""
        running, machine.running = machine.running, None
        return running

    def kill_process(self, running: ReplicaProcess) -> None:
        """Kills a process of a replica with SIGKILL; the kernel then kills its workers."""
        running.is_killed = True
        running.process.resume()
        running.network.die()
        running.scope.cancel()
        running.workers.kill_all()

    async def stop(self, machine: ReplicaMachine) -> None:
        """Stops the replica as SIGTERM does, and returns when it has ended."""
        running = machine.running
        if running is not None and running.replica is not None:
            running.stop_began_at = min(running.stop_began_at, trio.current_time())
            running.replica.stop()
            await running.ended.wait()


@contextmanager
def reporting(history: TriggerHistory) -> Iterator[None]:
    """Reports to a history what replicas claim, commit and send, within the `with` block."""
    claim_real, commit_real, send_real = GroupOffsets.claim, GroupOffsets.commit, RecordProducer.send
    lost_real = Replica.on_lost
    claim_in_transaction_real, commit_in_transaction_real = TransactionalOutput.claim, TransactionalOutput.commit
    send_in_transaction_real = TransactionalProducer.send

    async def claim(self: GroupOffsets, shard: Any, epoch: int, seek_to: SeekTo) -> Claim:
        owner = current_process().name
        history.on_claiming(owner, shard.number)
        claimed = await claim_real(self, shard, epoch, seek_to)
        history.on_claimed(owner, shard.number, epoch, claimed.offset)
        return claimed

    async def commit(self: GroupOffsets, marks: Mapping[Any, Any]) -> Any:
        owner = current_process().name
        history.on_committing(owner, {shard.number: mark.offset for shard, mark in marks.items()})
        refusals = await commit_real(self, marks)
        for shard, refused in refusals.items():
            if refused is None:
                history.on_committed(shard.number, marks[shard].offset)
        return refusals

    async def send(self: RecordProducer, records: Any) -> None:
        kept = list(records)
        await send_real(self, kept)
        history.on_outputs_acknowledged(bytes(each.value) for each in kept if each.topic == OUTPUT_TOPIC)
        history.on_dead_letters_acknowledged(bytes(each.value) for each in kept if each.topic != OUTPUT_TOPIC)

    async def claim_in_transaction(self: TransactionalOutput, epoch: int, seek_to: SeekTo) -> Claim:
        owner, number = current_process().name, self._shard.number
        history.on_claiming(owner, number)
        claimed = await claim_in_transaction_real(self, epoch, seek_to)
        history.on_claimed(owner, number, epoch, claimed.offset)
        return claimed

    async def commit_in_transaction(self: TransactionalOutput, mark: Mark) -> None:
        history.on_committing(current_process().name, {self._shard.number: mark.offset})
        await commit_in_transaction_real(self, mark)
        history.on_committed(self._shard.number, mark.offset)

    async def send_in_transaction(self: TransactionalProducer, records: Any) -> Any:
        kept = list(records)
        refused = await send_in_transaction_real(self, kept)
        sent = [each for number, each in enumerate(kept) if number not in refused]
        history.on_outputs_acknowledged(bytes(each.value) for each in sent if each.topic == OUTPUT_TOPIC)
        history.on_dead_letters_acknowledged(bytes(each.value) for each in sent if each.topic != OUTPUT_TOPIC)
        return refused

    def on_lost(self: Replica, shards: Collection[int]) -> None:
        history.on_lost(current_process().name, shards)
        lost_real(self, shards)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Replica, "on_lost", on_lost)
        patch.setattr(GroupOffsets, "claim", claim)
        patch.setattr(GroupOffsets, "commit", commit)
        patch.setattr(RecordProducer, "send", send)
        patch.setattr(TransactionalOutput, "claim", claim_in_transaction)
        patch.setattr(TransactionalOutput, "commit", commit_in_transaction)
        patch.setattr(TransactionalProducer, "send", send_in_transaction)
        yield
