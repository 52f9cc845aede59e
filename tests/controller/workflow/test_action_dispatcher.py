import structlog
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import (
    Partition,
    PartitionSpec,
    Spu,
    SpuSpec,
    SpuType,
    StreamAttribute,
    Topic,
    TopicSpec,
)
from tailrace.controller.partitions.election_updater import ElectionUpdater
from tailrace.controller.state.actions import (
    Action,
    AddSpu,
    AskLogEnd,
    ConnectionAction,
    Delete,
    DeletePartition,
    DropReplica,
    ForgetReplicas,
    KeepReplica,
    KvAction,
    Provision,
    ProvisionerAction,
    Put,
    Terminate,
)
from tailrace.controller.state.events import Event, LogEndsReported
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.object_names import ObjectNames
from tailrace.controller.workflow.action_dispatcher import ActionDispatcher
from tailrace.controller.workflow.replica_provisioning import NoReplicaProvisioner
from tailrace.controller.workflow.updaters import (
    ConnectionUpdater,
    KvUpdater,
    NoProvisioner,
    ProvisionerUpdater,
    UpdaterCounts,
)
from tailrace.protocol.ids import NO_TOPIC_ID, Epoch, SpuId
from tailrace.protocol.internal.describe_replicas import DescribeReplicasRequest, DescribeReplicasResponse
from tailrace.server.private_link import LinkClosed

LOGGER = structlog.get_logger()
NAMES = ObjectNames(LocalStore())
ASK = AskLogEnd(SpuId(1), "first", NO_TOPIC_ID, 0, Epoch(3))
MANAGED = Spu(SpuSpec(SpuId(11), SpuType.MANAGED, group="main"), version=4)
PARTITION = Partition("orders", NO_TOPIC_ID, 0, PartitionSpec(SpuId(1), (SpuId(1),)), version=3)


class NobodyThere:
    async def ask_spu(self, spu: SpuId, message: DescribeReplicasRequest) -> DescribeReplicasResponse:
        await trio.lowlevel.checkpoint()
        raise LinkClosed("it is gone")

    def is_connected(self, spu: SpuId, incarnation: str) -> bool:
        return False

    def is_carrying_out_specs(self, spu: SpuId) -> bool:
        return False

    def owes_response(self, spu: SpuId) -> bool:
        return False


class RecordingReplicas(NoReplicaProvisioner):
    """Records what it is asked for."""

    def __init__(self) -> None:
        super().__init__(LOGGER)
        self.asked: list[object] = []

    def keep(self, wanted: KeepReplica) -> None:
        self.asked.append(wanted)

    def drop(self, trigger: str, replica: str) -> None:
        self.asked.append((trigger, replica))

    def forget(self, trigger: str) -> None:
        self.asked.append(trigger)


class Taken:
    """Records the actions that each updater got."""

    def __init__(self, unreadable: dict[str, int] | None = None) -> None:
        self.key_value: list[KvAction] = []
        self.connections: list[ConnectionAction] = []
        self.provisioner: list[ProvisionerAction] = []
        self.events: list[Event] = []
        self.replicas = RecordingReplicas()
        counts = UpdaterCounts()
        key_value = KvUpdater(MemoryStore(), counts, LOGGER)
        provisioner = ProvisionerUpdater(NoProvisioner(LOGGER), counts, LOGGER)
        self._key_value = key_value
        self._provisioner = provisioner
        self.elections = ElectionUpdater(NobodyThere(), LocalStore(), self._hear, lambda: 3, LOGGER)
        self.dispatcher = ActionDispatcher(
            key_value,
            ConnectionUpdater(self, LOGGER, NAMES),
            provisioner,
            self.replicas,
            self.elections,
            unreadable or {},
            LOGGER,
            NAMES,
        )

    async def _hear(self, event: Event) -> None:
        self.events.append(event)
        await trio.lowlevel.checkpoint()

    def apply(self, action: ConnectionAction) -> None:
        self.connections.append(action)

    def dispatch(self, *actions: Action) -> None:
        self.dispatcher.dispatch(actions)
        self.key_value = list(self._key_value._waiting.values())
        self.provisioner = list(self._provisioner._waiting.values())


async def test_questions_of_elections_reach_their_updater(autojump_clock: MockClock) -> None:
    taken = Taken()
    taken.dispatch(ASK)
    with trio.move_on_after(2):
        await taken.elections.run()
    assert taken.events[-1:] == [LogEndsReported(ASK.spu, "first", {(NO_TOPIC_ID, 0): ASK.epoch}, {})]


def test_each_action_goes_to_the_updater_of_its_destination() -> None:
    taken = Taken()
    put = Put(Topic("orders", NO_TOPIC_ID, TopicSpec()))
    gone = DeletePartition(NO_TOPIC_ID, 0)
    taken.dispatch(put, AddSpu(MANAGED), Provision(MANAGED), Delete(PARTITION), gone, Terminate(SpuId(12)))
    assert taken.key_value == [put, Delete(PARTITION)]
    assert taken.connections == [AddSpu(MANAGED), gone]
    assert taken.provisioner == [Provision(MANAGED), Terminate(SpuId(12))]
    kept = KeepReplica("bill", "replica1", 1, None)
    taken.dispatch(kept, DropReplica("bill", "replica2"), ForgetReplicas("bill"))
    assert taken.replicas.asked == [kept, ("bill", "replica2"), "bill"]


def test_nothing_is_deleted_because_its_owner_cannot_be_read() -> None:
    taken = Taken({"topic/orders": 7, "spu-group/main": 8})
    with capture_logs() as logs:
        state = StreamAttribute("orders", "billing", "{}")
        taken.dispatch(Delete(PARTITION), Delete(MANAGED), Put(MANAGED), Delete(state))
    assert taken.key_value == [Put(MANAGED)]
    owners = [log["owner"] for log in logs if log["event"] == "deletion_withheld"]
    assert owners == ["topic/orders", "spu-group/main", "topic/orders"]


def test_the_log_shows_what_was_decided() -> None:
    with capture_logs() as logs:
        Taken().dispatch(Put(MANAGED), AddSpu(MANAGED))
    assert [log["actions"] for log in logs if log["event"] == "actions_dispatched"] == [
        {"PutSpu": ["spu/11"], "AddSpu": ["spu/11"]}
    ]
