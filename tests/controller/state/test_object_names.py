from controller_model import reported, topic

from tailrace.controller.objects.objects import Partition, PartitionSpec, Spu, SpuSpec
from tailrace.controller.state.actions import AddPartition, AddSpu, AwaitLeader, Delete, DeletePartition, Put, Terminate
from tailrace.controller.state.events import LogEndsReported, ReconciliationDue, Removed, SpuLost, Stored
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.object_codec import key_of
from tailrace.controller.state.object_names import ObjectNames
from tailrace.protocol.ids import Epoch, SpuId

ORDERS = topic("orders")
PARTITION = Partition("orders", ORDERS.id, 3, PartitionSpec(SpuId(1), (SpuId(1),)), version=2)
SPU = Spu(SpuSpec(SpuId(1)))


def _names() -> ObjectNames:
    local = LocalStore()
    for each in (ORDERS, PARTITION):
        local.apply(Stored(each))
    return ObjectNames(local)


def test_partitions_are_named_by_their_topic_whatever_an_event_knows() -> None:
    names = _names()
    key = (ORDERS.id, 3)
    assert names.of_event(Stored(PARTITION)) == ["partition/orders/3"]
    assert names.of_event(Removed(key_of(PARTITION), 9)) == ["partition/orders/3"]
    assert names.of_event(reported(PARTITION, ())) == ["partition/orders/3"]
    asked = LogEndsReported(SpuId(1), "first", {key: Epoch(1), (ORDERS.id, 4): Epoch(1)}, {})
    assert names.of_event(asked) == ["partition/orders/3", "partition/orders/4"]
    assert ObjectNames(LocalStore()).of_event(reported(PARTITION, ())) == [f"partition/{ORDERS.id}/3"]


def test_events_about_spus_and_about_everything() -> None:
    names = _names()
    assert names.of_events([SpuLost(SpuId(1), "first", ""), ReconciliationDue(), Stored(SPU)]) == ["spu/1"]
    assert names.of_event(Removed("spu-group/main", 9)) == ["spu-group/main"]


def test_actions_are_named_by_kind() -> None:
    actions = [
        Put(PARTITION),
        Put(ORDERS),
        Delete(SPU),
        AddPartition(PARTITION),
        DeletePartition(ORDERS.id, 3),
        DeletePartition(ORDERS.id, 4),
        AwaitLeader(SpuId(1), "first", ORDERS.id, 3, Epoch(1)),
        AddSpu(SPU),
        Terminate(SpuId(7)),
    ]
    assert _names().of_actions(actions) == {
        "PutPartition": ["partition/orders/3"],
        "PutTopic": ["topic/orders"],
        "DeleteSpu": ["spu/1"],
        "AddPartition": ["partition/orders/3"],
        "DeletePartition": ["partition/orders/3", "partition/orders/4"],
        "AwaitLeader": ["partition/orders/3"],
        "AddSpu": ["spu/1"],
        "Terminate": ["spu/7"],
    }
