"""A cluster in a simulation: real SCs and real SPUs, on simulated networks, disks, clocks and chance.

A process is killed by taking its seams away and cancelling it, so that its tasks reach nothing any more. The fault
decides what the machine keeps: its page cache after a kill, and any part of its unsynced data after a power failure.
"""

import logging
import math
from collections.abc import Callable, MutableMapping, Sequence
from random import Random
from typing import Any

import structlog
import trio
from msgspec import Struct, field

from tailrace.broker.spu import Spu
from tailrace.broker.spu_server import SpuServer
from tailrace.broker.spu_storage import StartError as SpuStartError
from tailrace.controller.key_value import interface as key_value
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import PublicEndpoint
from tailrace.controller.objects.objects import Spu as RegisteredSpu
from tailrace.controller.objects.objects import SpuSpec as RegisteredSpec
from tailrace.controller.state.object_codec import encode, key_of
from tailrace.controller.streaming_controller import StartError as ScStartError
from tailrace.controller.streaming_controller import StreamingController
from tailrace.protocol.ids import SpuId
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address, CannotListenError
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import ListenerSettings, ScSettings, SpuSettings

from .determinism import random_of
from .faulty_network import Internet, ProcessNetwork
from .files import Keep, SimulatedFiles
from .store_access import StoreAccess

DATA_DIRECTORY = "/data/spu"
EPOCH_MS = 1_700_000_000_000
RESTART_SECONDS = 0.5
"""How long a supervisor waits before it restarts a process that ended by itself."""
SEVERAL_SCS = "etcd://simulated:2379"
"""The store setting of an SC that shares its store with others, although it gets the store object directly."""

MISTAKES = frozenset({"request_failed", "private_request_failed"})
"""The log events of exceptions that nobody expected."""

Print = Callable[[dict[str, Any]], None]
"""A function that shows the servers' log events to a person."""


def spu_address(spu: int) -> Address:
    return Address(f"spu-{spu}", 9005)


def sc_address(sc: int) -> Address:
    return Address(f"sc-{sc}", 9003)


class HostClock(Struct):
    """The wall clock of one machine, which faults may make jump."""

    skew_ms: int = 0

    def now_ms(self) -> int:
        return EPOCH_MS + int(trio.current_time() * 1000) + self.skew_ms


class Process(Struct):
    server: SpuServer | StreamingController
    network: ProcessNetwork
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    ended: trio.Event = field(default_factory=trio.Event)
    is_killed: bool = False
    is_stopping: bool = False
    is_serving: bool = False
    """Whether clients may connect."""

    def started(self, value: object = None) -> None:
        """Marks the process as serving; its server calls this method of Trio's task status."""
        self.is_serving = True


class Machine(Struct):
    host: str
    chance: Random
    sync_seconds_max: float
    clock: HostClock = field(default_factory=HostClock)
    files: SimulatedFiles = field(default_factory=SimulatedFiles)
    process: Process | None = None
    killed_at: float = -math.inf
    """When a process of the machine was last killed."""
    is_on: bool = True
    wants_to_run: bool = False
    """Whether a supervisor restarts the process if it ends by itself."""
    store: StoreAccess | None = None
    sync_seconds: Callable[[], float] | None = None

    def use_disk(self, files: SimulatedFiles) -> None:
        """Uses these files; faults of the disk itself outlive the process."""
        files.room_bytes, files.syncs_fail = self.files.room_bytes, self.files.syncs_fail
        files.reads_fail = self.files.reads_fail
        files.sync_seconds = self.disk_seconds
        self.files = files

    def disk_seconds(self) -> float:
        if self.sync_seconds is not None:
            return self.sync_seconds()
        return self.sync_seconds_max * self.chance.uniform(0.1, 1)


class World:
    def __init__(
        self,
        seed: int,
        nursery: trio.Nursery,
        *,
        spus: int,
        scs: int = 1,
        buffer_bytes: int = 64 * 1024,
        link_seconds: float = 0.0005,
        sync_seconds: float = 0.002,
        store_seconds: float = 0.002,
        patience_seconds: float = 2.0,
        broker: dict[str, str] | None = None,
        replace_after_seconds: float = math.inf,
        show: Print | None = None,
    ) -> None:
        self.seed = seed
        self.chance = random_of(seed, "world")
        self.internet = Internet(random_of(seed, "network"), buffer_bytes=buffer_bytes, link_seconds=link_seconds)
        self.patience_seconds = patience_seconds
        """How long clients wait for a response."""
        self._sync_seconds = sync_seconds
        self._store_seconds = store_seconds
        self.store = MemoryStore()
        self.spus = {number: self._machine(f"spu-{number}") for number in range(1, spus + 1)}
        self.scs = {number: self._machine(f"sc-{number}") for number in range(1, scs + 1)}
        self.clock_of_clients = HostClock()
        self.crashed: list[BaseException] = []
        """Errors that ended a process that was not killed, or that were logged as unexpected exceptions."""
        self.on_stored: Callable[[Sequence[key_value.Change]], None] = lambda changes: None
        """Called when an SC has stored something."""
        self.on_started: Callable[[int, SpuServer], None] = lambda number, server: None
        self._nursery = nursery
        self._broker = broker or {}
        self._replace_after_seconds = replace_after_seconds
        self._logger = self._make_logger(show)
        self._starts = 0

    def _machine(self, host: str) -> Machine:
        machine = Machine(host, random_of(self.seed, host), self._sync_seconds)
        machine.files.sync_seconds = machine.disk_seconds
        return machine

    def _make_logger(self, show: Print | None) -> Any:
        """Makes a logger, which looks only at errors if nobody wants to see the events."""

        def look(_: object, __: str, event: MutableMapping[str, Any]) -> str:
            if show is not None:
                show(dict(event))
            error = event.get("exc_info")
            if event["event"] in MISTAKES and isinstance(error, BaseException) and self._runs(event["at"]):
                error.add_note(f"logged at {trio.current_time():.3f} s: {event['event']} at {event['at']}")
                self.crashed.append(error)
            return ""

        level = logging.ERROR if show is None else logging.DEBUG
        wrapper = structlog.make_filtering_bound_logger(level)
        return structlog.wrap_logger(structlog.ReturnLogger(), processors=[look], wrapper_class=wrapper)

    def _runs(self, host: str) -> bool:
        """Whether the process runs.

        An error of a process that has just been killed is not a bug, because its sockets disappear before it does. Such
        errors come at the time of the kill, when another process may have been started already.
        """
        machines = (*self.spus.values(), *self.scs.values())
        return any(
            machine.host == host and machine.process is not None and machine.killed_at < trio.current_time()
            for machine in machines
        )

    @property
    def hosts(self) -> list[str]:
        return [machine.host for machine in (*self.spus.values(), *self.scs.values())]

    def running_spus(self) -> dict[int, Spu]:
        processes = {number: machine.process for number, machine in self.spus.items()}
        return {
            number: process.server.spu
            for number, process in processes.items()
            if process is not None and isinstance(process.server, SpuServer) and process.server.spu is not None
        }

    # life

    async def register(self) -> None:
        """Stores registrations of all SPUs, as the command line would do."""
        addresses = {number: spu_address(number) for number in self.spus}
        objects = [
            RegisteredSpu(RegisteredSpec(SpuId(number), public=PublicEndpoint(at.port, (at.host,))))
            for number, at in addresses.items()
        ]
        await self.store.write([key_value.Put(key_of(each), encode(each), 0) for each in objects])

    def start_everything(self) -> None:
        for number in self.scs:
            self.start_sc(number)
        for number in self.spus:
            self.start_spu(number)

    def start_sc(self, number: int) -> None:
        machine = self.scs[number]
        if machine.process is not None:
            return
        network = self.internet.process_on(machine.host)
        machine.store = StoreAccess(
            self.store, machine.chance, lambda changes: self.on_stored(changes), self._store_seconds
        )
        settings = ScSettings(
            data_directory="/data/sc",
            listeners=(ListenerSettings("PUBLIC", sc_address(number)),),
            private=ListenerSettings("PRIVATE", self._sc_private(number)),
            store=SEVERAL_SCS if len(self.scs) > 1 else "memory",
            reconciliation_seconds=min(10, self._replace_after_seconds),
            replace_after_seconds=self._replace_after_seconds,
            broker=self._broker,
        )
        seams = Seams(network, machine.files, machine.clock, self._random_source())
        logger = self._logger.bind(at=machine.host)
        self._run(machine, StreamingController(settings, seams, machine.store, logger), network)

    def start_spu(self, number: int) -> None:
        machine = self.spus[number]
        if machine.process is not None:
            return
        if not machine.is_on:
            machine.is_on = True
            self.internet.switch_on(machine.host)
        network = self.internet.process_on(machine.host)
        settings = SpuSettings(
            number,
            DATA_DIRECTORY,
            (ListenerSettings("PUBLIC", spu_address(number)),),
            broker=self._broker,
            controllers=tuple(self._sc_private(each) for each in self.scs),
            private=ListenerSettings("PRIVATE", Address(machine.host, 9006)),
        )
        seams = Seams(network, machine.files, machine.clock, self._random_source())
        server = SpuServer(settings, seams, self._logger.bind(at=machine.host))
        self.on_started(number, server)
        self._run(machine, server, network)

    def _sc_private(self, number: int) -> Address:
        return Address(f"sc-{number}", 9004)

    def _random_source(self) -> RandomChance:
        """Returns a random source that differs between processes."""
        self._starts += 1
        return RandomChance(self.chance.getrandbits(64) + self._starts)

    def _run(self, machine: Machine, server: SpuServer | StreamingController, network: ProcessNetwork) -> None:
        machine.process = Process(server, network)
        machine.wants_to_run = True
        self._nursery.start_soon(self._supervise, machine, machine.process)

    async def _supervise(self, machine: Machine, process: Process) -> None:
        try:
            with process.scope:
                await process.server.run(process)
        except Exception as error:
            if process.is_killed:
                return  # it noticed that its seams are gone
            self._on_ended_by_itself(machine, process, error)
        finally:
            process.ended.set()
            process.network.die()
            if machine.process is process:
                machine.process = None
                machine.use_disk(machine.files.after_kill())  # no lock outlives a process
        if not process.is_killed and not process.is_stopping and machine.wants_to_run:
            await trio.sleep(RESTART_SECONDS)
            if machine.process is None and machine.wants_to_run:
                self._start(machine)

    def _on_ended_by_itself(self, machine: Machine, process: Process, error: Exception) -> None:
        expected = SpuStartError, ScStartError, CannotListenError
        files = machine.files
        if isinstance(error, OSError) and (files.syncs_fail or files.reads_fail or files.room_bytes is not None):
            return  # a server may end when its disk fails
        if not isinstance(error, expected) and not process.is_stopping:
            error.add_note(f"it ended {machine.host} at {trio.current_time():.3f} s")
            self.crashed.append(error)

    def _start(self, machine: Machine) -> None:
        for number, each in self.spus.items():
            if each is machine:
                self.start_spu(number)
        for number, each in self.scs.items():
            if each is machine:
                self.start_sc(number)

    # how processes end

    def kill(self, machine: Machine) -> None:
        """Kills the process at once with SIGKILL, whatever it is doing."""
        process = self._take(machine)
        if process is not None:
            process.network.die()
            machine.files.flip_back()
            machine.use_disk(machine.files.after_kill())

    def lose_power(self, machine: Machine, keep: Keep) -> None:
        process = self._take(machine)
        if process is not None:
            machine.is_on = False
            self.internet.switch_off(machine.host, process.network)
            machine.files.flip_back()
            machine.use_disk(machine.files.crash(keep))

    def _take(self, machine: Machine) -> Process | None:
        process, machine.process = machine.process, None
        machine.wants_to_run = False
        if process is not None:
            process.is_killed = True
            machine.killed_at = trio.current_time()
            if machine.store is not None:
                machine.store.is_dead = True
            process.scope.cancel()
        return process

    async def stop(self, machine: Machine) -> None:
        """Stops the process cleanly."""
        process = machine.process
        machine.wants_to_run = False
        if process is not None:
            process.is_stopping = True
            process.server.stop()
            await process.ended.wait()
