import json
from uuid import UUID

import pytest
from msgspec.structs import replace

from tailrace.cluster.specs import Shelf
from tailrace.controller.administration.object_planning import (
    DOCUMENT_CHARACTERS_MAX,
    find_topic,
    list_objects,
    plan_creation,
    plan_removal,
    plan_update,
    read_object,
    write_document,
)
from tailrace.controller.objects.objects import (
    DeletedTopic,
    FunctionSnapshot,
    Object,
    Partition,
    PartitionSpec,
    Spu,
    SpuGroup,
    SpuGroupResolution,
    SpuGroupSpec,
    SpuGroupStatus,
    SpuResolution,
    SpuSpec,
    SpuStatus,
    SpuType,
    Topic,
    TopicResolution,
    TopicSpec,
    TopicStatus,
    Trigger,
    TriggerResolution,
    TriggerSpec,
    TriggerStatus,
)
from tailrace.controller.state.actions import Delete, Put
from tailrace.controller.state.events import Stored
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.observed import Observed
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import NO_TOPIC_ID, SpuId
from tailrace.runtime.network import Address

ID, OTHER_ID = UUID(int=7), UUID(int=8)
RESERVED = SpuGroupStatus(SpuGroupResolution.RESERVED)


def local_with(*objects: Object) -> LocalStore:
    local = LocalStore()
    for version, each in enumerate(objects, 1):
        local.apply(Stored(replace(each, version=version)))
    return local


def managed(spu_id: int, group: str = "main") -> Spu:
    return Spu(SpuSpec(SpuId(spu_id), SpuType.MANAGED, group=group))


def custom(spu_id: int) -> Spu:
    return Spu(SpuSpec(SpuId(spu_id)))


def topic(name: str, topic_id: UUID = ID) -> Topic:
    return Topic(name, topic_id, TopicSpec(), TopicStatus(TopicResolution.PROVISIONED, {0: (SpuId(1),)}))


def partition(name: str, number: int, topic_id: UUID = ID) -> Partition:
    return Partition(name, topic_id, number, PartitionSpec(SpuId(1), (SpuId(1),)))


def refused(plan: object, *arguments: object, **options: object) -> KafkaError:
    assert callable(plan)
    with pytest.raises(KafkaError) as error:
        plan(*arguments, **options)
    return error.value


def test_a_document_is_read_and_written_alike() -> None:
    spu = custom(7)
    assert read_object("spu", write_document(spu)) == spu


@pytest.mark.parametrize("document", ["", "[", "nope", "[]", "7", '{"spuId": 7, "racks": "a"}', "[" * 100_000])
def test_documents_of_another_kind_are_refused(document: str) -> None:
    assert refused(read_object, "spu", document).code is ErrorCode.INVALID_REQUEST


def test_kinds_that_are_not_for_people_and_documents_without_end_are_refused() -> None:
    assert "configs" in refused(read_object, "configs", "{}").message
    assert "characters" in refused(read_object, "spu", " " * (DOCUMENT_CHARACTERS_MAX + 1)).message


def test_objects_are_listed_in_an_order_that_a_person_expects() -> None:
    local = local_with(
        custom(10),
        custom(9),
        topic("b", OTHER_ID),
        topic("a"),
        partition("a", 10),
        partition("a", 9),
        partition("b", 0, OTHER_ID),
        DeletedTopic(topic("old", UUID(int=9)), 5),
        SpuGroup("main", SpuGroupSpec()),
    )
    assert [name for name, _ in list_objects("spu", None, local)] == ["9", "10"]
    assert [name for name, _ in list_objects("topic", None, local)] == ["a", "b"]
    assert [name for name, _ in list_objects("partition", None, local)] == ["a/9", "a/10", "b/0"]
    assert [name for name, _ in list_objects("partition", ["b", "a/9"], local)] == ["b/0", "a/9"]
    assert [name for name, _ in list_objects("deleted-topic", ["old"], local)] == [str(UUID(int=9))]
    assert [name for name, _ in list_objects("spu-group", None, local)] == ["main"]
    assert refused(list_objects, "spu", ["9", "11"], local).code is ErrorCode.RESOURCE_NOT_FOUND


def test_a_new_object_has_the_initial_status() -> None:
    online = Spu(SpuSpec(SpuId(1)), SpuStatus(SpuResolution.ONLINE, "mine"))
    assert plan_creation(online, local_with(), ID).writes == (Put(custom(1)),)
    made = plan_creation(topic("orders", OTHER_ID), local_with(), ID).result
    assert made == Topic("orders", ID, TopicSpec())
    group = SpuGroup("main", SpuGroupSpec(), RESERVED)
    assert plan_creation(group, local_with(), ID).result == SpuGroup("main", SpuGroupSpec())


def test_ids_are_unique_over_custom_and_managed_spus() -> None:
    group = SpuGroup("main", SpuGroupSpec(2, SpuId(11)), RESERVED)
    local = local_with(custom(1), group)
    assert refused(plan_creation, custom(1), local, ID).code is ErrorCode.DUPLICATE_RESOURCE
    taken = refused(plan_creation, custom(12), local, ID)
    assert taken.code is ErrorCode.DUPLICATE_RESOURCE
    assert "main" in taken.message
    assert plan_creation(custom(13), local, ID).writes
    invalid = local_with(replace(group, status=SpuGroupStatus(SpuGroupResolution.INVALID, "x")))
    assert plan_creation(custom(12), invalid, ID).writes, "what an invalid group wants is not reserved"


def test_objects_that_cannot_be_created() -> None:
    local = local_with(topic("a.b"), SpuGroup("main", SpuGroupSpec()))
    assert refused(plan_creation, managed(1), local, ID).message.startswith("spuType:")
    assert refused(plan_creation, topic("a.b"), local, ID).code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert refused(plan_creation, topic("a_b"), local, ID).code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused(plan_creation, SpuGroup("main", SpuGroupSpec()), local, ID).code is ErrorCode.DUPLICATE_RESOURCE
    assert refused(plan_creation, partition("a.b", 0), local, ID).code is ErrorCode.INVALID_REQUEST


def test_an_update_is_of_the_spec_alone() -> None:
    local = local_with(Spu(SpuSpec(SpuId(1)), SpuStatus(SpuResolution.ONLINE, "its own")))
    wanted = Spu(SpuSpec(SpuId(1), rack="a"), SpuStatus(SpuResolution.OFFLINE))
    (write,) = plan_update(wanted, local, Observed()).writes
    assert write == Put(Spu(SpuSpec(SpuId(1), rack="a"), SpuStatus(SpuResolution.ONLINE, "its own"), 1))


def test_a_group_is_scaled_but_keeps_the_ids_of_its_spus() -> None:
    local = local_with(SpuGroup("main", SpuGroupSpec(1, SpuId(11)), RESERVED), managed(11))
    scaled = plan_update(SpuGroup("main", SpuGroupSpec(3, SpuId(11))), local, Observed()).result
    assert scaled == SpuGroup("main", SpuGroupSpec(3, SpuId(11)), RESERVED, 1)
    assert refused(plan_update, SpuGroup("main", SpuGroupSpec(1, SpuId(12))), local, Observed()).message.startswith(
        "minId:"
    )


def test_a_group_is_not_scaled_into_the_ids_of_others() -> None:
    local = local_with(SpuGroup("main", SpuGroupSpec(1, SpuId(11)), RESERVED), managed(11), custom(13))
    fault = refused(plan_update, SpuGroup("main", SpuGroupSpec(3, SpuId(11))), local, Observed())
    assert (fault.code, fault.message) == (
        ErrorCode.INVALID_REQUEST,
        "of the ids 11-13 one is taken: SPU 13 is a custom SPU",
    )


def test_a_refusal_names_the_owner_of_an_id() -> None:
    local = local_with(custom(1), managed(11))
    assert refused(plan_creation, custom(1), local, NO_TOPIC_ID).message == "there is an SPU 1 already"
    taken = refused(plan_creation, custom(11), local, NO_TOPIC_ID)
    assert taken.code is ErrorCode.DUPLICATE_RESOURCE
    assert taken.message == "there is an SPU 11 already: it belongs to the SPU group main"


def test_objects_that_cannot_be_updated() -> None:
    local = local_with(managed(11), topic("orders"))
    assert "template" in refused(plan_update, custom(11), local, Observed()).message
    assert refused(plan_update, custom(1), local, Observed()).code is ErrorCode.RESOURCE_NOT_FOUND
    assert (
        refused(plan_update, SpuGroup("main", SpuGroupSpec()), local, Observed()).code is ErrorCode.RESOURCE_NOT_FOUND
    )
    assert refused(plan_update, topic("other"), local, Observed()).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(plan_update, partition("orders", 0), local, Observed()).code is ErrorCode.INVALID_REQUEST


def test_spus_that_hold_replicas_go_by_force_alone() -> None:
    local = local_with(custom(1), topic("orders"), partition("orders", 0))
    held = refused(plan_removal, "spu", "1", local, force=False)
    assert held.code is ErrorCode.POLICY_VIOLATION
    assert "1 replica of orders" in held.message
    assert plan_removal("spu", "1", local, force=True).writes == (Delete(local.spus[SpuId(1)]),)


def test_a_running_spu_whose_id_a_group_waits_for_is_unregistered_by_force_alone() -> None:
    running = replace(custom(12), status=SpuStatus(SpuResolution.ONLINE))
    waiting = SpuGroup("edge", SpuGroupSpec(2, SpuId(11)), SpuGroupStatus(SpuGroupResolution.INVALID, "taken"))
    held = refused(plan_removal, "spu", "12", local_with(running, waiting), force=False)
    assert held.code is ErrorCode.POLICY_VIOLATION
    assert held.message == (
        "SPU 12 is online, and the SPU group edge waits for its id to start an SPU of its own; stop the process of the "
        "SPU first, or use --force"
    )
    assert plan_removal("spu", "12", local_with(running, waiting), force=True).writes
    assert plan_removal("spu", "12", local_with(custom(12), waiting), force=False).writes
    assert plan_removal("spu", "12", local_with(running), force=False).writes


def test_spus_that_keep_shelves_as_well() -> None:
    orders = partition("orders", 0)
    shelves = (Shelf(0, 5, (SpuId(2),)), Shelf(5, 5, (SpuId(3),), (SpuId(2),)))
    shelved = replace(orders, spec=replace(orders.spec, shelves=shelves))
    local = local_with(custom(2), topic("orders"), shelved)
    held = refused(plan_removal, "spu", "2", local, force=False)
    assert held.code is ErrorCode.POLICY_VIOLATION
    assert "SPU 2 holds 2 shelves of orders, which would be lost" in held.message
    assert plan_removal("spu", "2", local, force=True).writes == (Delete(local.spus[SpuId(2)]),)


def test_replicas_of_deleted_topics_do_not_keep_an_spu() -> None:
    local = local_with(custom(1), DeletedTopic(topic("orders"), 5), partition("orders", 0))
    assert plan_removal("spu", "1", local, force=False).writes


def test_a_group_goes_with_its_spus_the_highest_id_first() -> None:
    local = local_with(SpuGroup("main", SpuGroupSpec(2, SpuId(11))), managed(11), managed(12), custom(1))
    removed = [write.object for write in plan_removal("spu-group", "main", local, force=False).writes]
    assert removed == [local.spu_groups["main"], local.spus[SpuId(12)], local.spus[SpuId(11)]]
    assert "scale" in refused(plan_removal, "spu", "11", local, force=False).message


def test_objects_that_cannot_be_removed() -> None:
    local = local_with(partition("orders", 0))
    for kind, code in (
        ("spu", ErrorCode.RESOURCE_NOT_FOUND),
        ("spu-group", ErrorCode.RESOURCE_NOT_FOUND),
        ("deleted-topic", ErrorCode.UNKNOWN_TOPIC_ID),
        ("partition", ErrorCode.INVALID_REQUEST),
    ):
        assert refused(plan_removal, kind, "x", local, force=True).code is code, kind


def test_a_topic_is_found_by_its_name_and_its_id() -> None:
    local = local_with(topic("orders"))
    assert find_topic("orders", local) is find_topic(str(ID), local)
    assert refused(find_topic, "x", local).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(find_topic, str(OTHER_ID), local).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_documents_are_json() -> None:
    assert json.loads(write_document(topic("orders")))["name"] == "orders"


TRIGGER = Trigger(
    "bill",
    TriggerSpec("orders", "billing", FunctionSnapshot("/billing.py", "..."), revision=7),
    TriggerStatus(TriggerResolution.RUNNING, "", (7,)),
)


def test_a_new_trigger_begins_with_the_first_revision_and_without_a_status() -> None:
    planned = plan_creation(TRIGGER, local_with(), NO_TOPIC_ID)
    assert planned.result == Trigger("bill", replace(TRIGGER.spec, revision=1))
    with pytest.raises(KafkaError, match=r"there is a trigger bill already"):
        plan_creation(TRIGGER, local_with(TRIGGER), NO_TOPIC_ID)


def test_two_triggers_never_read_a_topic_in_the_same_group() -> None:
    ship = replace(TRIGGER, name="ship")
    with pytest.raises(KafkaError, match=r"the trigger bill reads orders in the group billing already"):
        plan_creation(ship, local_with(TRIGGER), NO_TOPIC_ID)
    other = replace(ship, spec=replace(ship.spec, group="shipping"))
    plan_creation(other, local_with(TRIGGER), NO_TOPIC_ID)
    with pytest.raises(KafkaError, match=r"the trigger bill reads orders in the group billing already"):
        plan_update(ship, local_with(TRIGGER, other), Observed())


@pytest.mark.parametrize(
    ("changes", "revision"),
    [
        ({}, 7),
        ({"replicas": 3, "min_replicas": 1, "paused": True}, 7),
        ({"revision": 1}, 7),
        ({"revision": 8}, 8),
        ({"revision": 100}, 8),
        ({"config": {"max_workers": 2}}, 8),
        ({"function": FunctionSnapshot("/billing.py", "another")}, 8),
        ({"group": "other"}, 8),
        ({"metrics": Address("localhost", 9100)}, 8),
    ],
)
def test_only_what_replicas_have_loaded_makes_a_new_revision(changes: dict[str, object], revision: int) -> None:
    wanted = replace(TRIGGER, spec=replace(TRIGGER.spec, **changes), status=TriggerStatus())  # type: ignore[arg-type]
    local = local_with(TRIGGER)
    planned = plan_update(wanted, local, Observed())
    assert planned.result == replace(local.triggers["bill"], spec=replace(wanted.spec, revision=revision))


def test_a_trigger_is_listed_and_removed_by_its_name() -> None:
    local = local_with(TRIGGER)
    (listed,) = list_objects("trigger", ["bill"], local)
    assert listed == ("bill", local.triggers["bill"])
    assert plan_removal("trigger", "bill", local, force=False).writes == (Delete(local.triggers["bill"]),)
    for refused in (
        lambda: plan_removal("trigger", "ship", local, force=False),
        lambda: plan_update(replace(TRIGGER, name="ship"), local, Observed()),
    ):
        with pytest.raises(KafkaError, match=r"there is no trigger ship"):
            refused()
