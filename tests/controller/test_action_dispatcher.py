import structlog
from structlog.testing import capture_logs

from tailrace.controller.action_dispatcher import ActionDispatcher
from tailrace.controller.actions import (
    Action,
    AddSpu,
    ConnectionAction,
    Delete,
    DeletePartition,
    KvAction,
    Provision,
    ProvisionerAction,
    Put,
    Terminate,
)
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects import Partition, PartitionSpec, Spu, SpuSpec, SpuType, Topic, TopicSpec
from tailrace.controller.updaters import ConnectionUpdater, KvUpdater, NoProvisioner, ProvisionerUpdater, UpdaterCounts
from tailrace.protocol.ids import NO_TOPIC_ID, SpuId

LOGGER = structlog.get_logger()
MANAGED = Spu(SpuSpec(SpuId(11), SpuType.MANAGED, group="main"), version=4)
PARTITION = Partition("orders", NO_TOPIC_ID, 0, PartitionSpec(SpuId(1), (SpuId(1),)), version=3)


class Taken:
    """What each updater was handed."""

    def __init__(self, unreadable: dict[str, int] | None = None) -> None:
        self.key_value: list[KvAction] = []
        self.connections: list[ConnectionAction] = []
        self.provisioner: list[ProvisionerAction] = []
        counts = UpdaterCounts()
        key_value = KvUpdater(MemoryStore(), counts, LOGGER)
        provisioner = ProvisionerUpdater(NoProvisioner(LOGGER), counts, LOGGER)
        self._key_value = key_value
        self._provisioner = provisioner
        self.dispatcher = ActionDispatcher(
            key_value, ConnectionUpdater(self, LOGGER), provisioner, unreadable or {}, LOGGER
        )

    def apply(self, action: ConnectionAction) -> None:
        self.connections.append(action)

    def dispatch(self, *actions: Action) -> None:
        self.dispatcher.dispatch(actions)
        self.key_value = list(self._key_value._waiting.values())
        self.provisioner = list(self._provisioner._waiting.values())


def test_each_action_goes_to_the_updater_of_its_destination() -> None:
    taken = Taken()
    put = Put(Topic("orders", NO_TOPIC_ID, TopicSpec()))
    gone = DeletePartition(NO_TOPIC_ID, 0)
    taken.dispatch(put, AddSpu(MANAGED), Provision(MANAGED), Delete(PARTITION), gone, Terminate(SpuId(12)))
    assert taken.key_value == [put, Delete(PARTITION)]
    assert taken.connections == [AddSpu(MANAGED), gone]
    assert taken.provisioner == [Provision(MANAGED), Terminate(SpuId(12))]


def test_nothing_is_deleted_because_its_owner_cannot_be_read() -> None:
    taken = Taken({"topic/orders": 7, "spu-group/main": 8})
    with capture_logs() as logs:
        taken.dispatch(Delete(PARTITION), Delete(MANAGED), Put(MANAGED))
    assert taken.key_value == [Put(MANAGED)]
    owners = [log["owner"] for log in logs if log["event"] == "deletion_withheld"]
    assert owners == ["topic/orders", "spu-group/main"]


def test_the_log_shows_what_was_decided() -> None:
    with capture_logs() as logs:
        Taken().dispatch(Put(MANAGED), AddSpu(MANAGED))
    assert [log["actions"] for log in logs if log["event"] == "actions_dispatched"] == [{"PutSpu": 1, "AddSpu": 1}]
