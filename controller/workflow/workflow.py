"""The workflow of the SC: the loop around readers, controllers and updaters.

When an SC becomes active, it builds all its state from the store. So an SC that was killed and an SC that takes over
start in the same way.
"""

from contextlib import suppress
from typing import Protocol

import trio
from msgspec import Struct, field

from tailrace.cluster.cluster import LOOPBACK_HOSTS, Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.controller.key_value.interface import Entry, KeyValueStore
from tailrace.controller.objects.objects import ConfigOverrides, Partition
from tailrace.controller.partitions.election import is_unclean
from tailrace.controller.partitions.election_updater import Candidates, ElectionUpdater
from tailrace.controller.state.actions import Action
from tailrace.controller.state.cluster_mirror import ClusterMirror, MirrorChange
from tailrace.controller.state.events import Event, Removed, Stored
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.object_names import ObjectNames
from tailrace.controller.state.observed import Observed
from tailrace.controller.state.status_changes import StatusChanges
from tailrace.controller.triggers.heartbeat_ages import HeartbeatAges
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import NO_EPOCH
from tailrace.runtime.logs import FilteringBoundLogger, shows_debug
from tailrace.runtime.wall_clock import WallClock

from .action_dispatcher import ActionDispatcher
from .confirmed_writes import ConfirmedWrites
from .election_log import Elected, ElectionLog
from .leadership import LEADER_KEY
from .metadata_dispatcher import MetadataDispatcher, controllers_over
from .readers import EVENTS_WAITING_MAX, ConnectionReader, KvReader, ReaderCounts
from .replica_provisioning import NoReplicaProvisioner, ReplicaProvisioner
from .updaters import Connections, ConnectionUpdater, KvUpdater, Provisioner, ProvisionerUpdater, UpdaterCounts

EVENTS_AT_ONCE = 100
"""How many events are handled in one turn. Their actions go out together, and then the mirror is published."""


class PublishingConnections(Connections, Candidates, Protocol):
    """The Connection Manager as the workflow uses it."""

    def publish(self, change: MirrorChange) -> None:
        """Sends a change of the mirror to every connected SPU, after everything that `apply` was given before."""


class WorkflowCounts(Struct):
    """The counts of the workflow, for metrics."""

    reader: ReaderCounts = field(default_factory=ReaderCounts)
    updaters: UpdaterCounts = field(default_factory=UpdaterCounts)
    decided_events: int = 0
    decided_actions: int = 0
    elections: int = 0
    unclean_elections: int = 0
    turns: int = 0


class Workflow:
    def __init__(
        self,
        store: KeyValueStore,
        provisioner: Provisioner,
        broker_configs: BrokerConfigs,
        wall_clock: WallClock,
        logger: FilteringBoundLogger,
        guard: Entry | None = None,
        counts: WorkflowCounts | None = None,
        replicas: ReplicaProvisioner | None = None,
    ) -> None:
        """`guard` is the entry by which this SC is active, if there may be several SCs.

        `counts` continue when the SC becomes active again.
        """
        self.local = LocalStore()
        self._names = names = ObjectNames(self.local)
        self.observed = Observed()
        self.cluster = Cluster()
        self.cluster.machine_hosts = LOOPBACK_HOSTS  # SPUs on this machine connect to the SC through them
        self.mirror = ClusterMirror(self.local, self.cluster)
        self.counts = counts = counts or WorkflowCounts()
        self.status_changes = StatusChanges(wall_clock)
        self.heartbeat_ages = HeartbeatAges()
        self.events, self._received = trio.open_memory_channel[Event](EVENTS_WAITING_MAX)
        """The channel to which readers and other parts of the SC send events."""
        self.key_value_updater = updater = KvUpdater(store, counts.updaters, logger, guard)
        self.reader = KvReader(
            store, self.events, logger, names, frozenset({LEADER_KEY}), counts.reader, updater.written
        )
        self.connection_reader = ConnectionReader(self.events, logger, names)
        self.writes = ConfirmedWrites(store, self.local, logger, guard, self.reader.refused)
        self.provisioner_updater = ProvisionerUpdater(provisioner, counts.updaters, logger)
        controllers = controllers_over(self.local, self.observed, broker_configs)
        self.replicas = replicas or NoReplicaProvisioner(logger)
        self._dispatcher = MetadataDispatcher(self.local, self.observed, controllers, self.mirror)
        self.triggers = self._dispatcher.triggers
        self.decisions = self._dispatcher.decisions
        self._broker_configs = broker_configs
        self._elections = ElectionLog(logger)
        self._logger = logger
        self._stored_events = counts.reader.read_events
        """How many of the reader's events have been handled."""

    async def run(
        self, connections: PublishingConnections, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Runs until it is cancelled. It has started when everything in the store was handled.

        Raises LeadershipLost.
        """
        elections = ElectionUpdater(
            connections,
            self.local,
            self.connection_reader.read,
            lambda: self._broker_configs.settings.election_wait_seconds,
            self._logger,
        )
        actions = ActionDispatcher(
            self.key_value_updater,
            ConnectionUpdater(connections, self._logger, self._names),
            self.provisioner_updater,
            self.replicas,
            elections,
            self.reader.refused,
            self._logger,
            self._names,
        )
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._decide, actions, connections)
                nursery.start_soon(self.key_value_updater.run)
                nursery.start_soon(self.provisioner_updater.run)
                nursery.start_soon(elections.run)
                nursery.start_soon(self._elections.run)
                await nursery.start(self.reader.run)
                to_read = self.reader.counts.read_events
                await self.writes.wait_until(lambda: self._stored_events >= to_read)
                task_status.started()
        finally:
            self.writes.close()  # Nothing would wake waiting requests any more.

    async def _decide(self, actions: ActionDispatcher, connections: PublishingConnections) -> None:
        async for first in self._received:
            events = [first]
            gathered = 0
            while gathered < len(events) < EVENTS_AT_ONCE:
                gathered = len(events)
                await trio.lowlevel.checkpoint()  # Readers add events, so that simultaneous ones share a turn.
                with suppress(trio.WouldBlock):
                    while len(events) < EVENTS_AT_ONCE:
                        events.append(self._received.receive_nowait())
            self._take_turn(events, actions, connections)

    def _take_turn(self, events: list[Event], actions: ActionDispatcher, connections: PublishingConnections) -> None:
        """Handles events without waiting. SPUs get their specs before the mirror that mentions them."""
        objects = self._names.of_events(events) if shows_debug() else []  # before removed objects are forgotten
        decided: list[Action] = []
        revision = 0
        for event in events:
            self._note_status(event)
            decided += self._dispatcher.on_event(event)
            if isinstance(event, Stored | Removed):
                revision = max(revision, event.object.version if isinstance(event, Stored) else event.version)
                self._stored_events += 1
                self.heartbeat_ages.note(event, trio.current_time())
                if self._use_broker_configs(event):
                    decided += self._dispatcher.on_broker_configs()
        self._logger.debug("controllers_decided", events=len(events), objects=objects, actions=len(decided))
        actions.dispatch(decided)
        change = self.mirror.publish()
        if change:
            connections.publish(change)
        self.counts.turns += 1
        self.counts.decided_events += len(events)
        self.counts.decided_actions += len(decided)
        self.writes.on_applied(revision)

    def _note_status(self, event: Event) -> None:
        """Records a new status of a partition. It must be called before the Local Store has the new status."""
        if isinstance(event, Stored) and isinstance(event.object, Partition):
            partition, before = event.object, self.local.partitions.get((event.object.topic_id, event.object.number))
            if before is not None and before.version < partition.version:
                self.status_changes.note(before.status, partition)
                self._count_election(before, partition)

    def _count_election(self, before: Partition, partition: Partition) -> None:
        if partition.status.epoch > before.status.epoch:
            self.counts.elections += 1
            status = partition.status
            elected = Elected(partition.topic, partition.number, before.status.leader, status.leader, status.epoch)
            if is_unclean(before, partition):
                self.counts.unclean_elections += 1
                self._logger.warning("leader_elected_uncleanly", **elected._asdict())
            elif before.status.epoch != NO_EPOCH:
                self._elections.note(elected)

    def _use_broker_configs(self, event: Stored | Removed) -> bool:
        """Takes over broker configs that were set for all SPUs, and returns whether they have changed."""
        if not (isinstance(event, Removed) or isinstance(event.object, ConfigOverrides)):
            return False
        overrides = self.local.config_overrides.get("")
        configs = {} if overrides is None else overrides.configs
        if configs == self._broker_configs.dynamic_default:
            return False
        try:
            self._broker_configs.use_dynamic({}, configs)
        except KafkaError as error:  # A newer version of the SC may have written them.
            self._logger.error("stored_configs_refused", reason=error.message)
            return False
        return True
