"""The SPU Group Controller: managed SPUs follow the spec of their group."""

import pytest
from controller_model import ModelSc, custom, group, model, topic
from msgspec.structs import replace

from tailrace.cluster.specs import Shelf
from tailrace.controller.objects.objects import (
    PublicEndpoint,
    Spu,
    SpuGroup,
    SpuGroupResolution,
    SpuGroupSpec,
    SpuGroupStatus,
    SpuTemplate,
    SpuType,
    TopicResolution,
)
from tailrace.controller.spus.spu_group_controller import describe_holdings
from tailrace.controller.state.actions import Delete, Provision, Put, Terminate, UpdateSpu
from tailrace.protocol.ids import SpuId

RESERVED = SpuGroupStatus(SpuGroupResolution.RESERVED)


def with_group(replicas: int = 2, min_id: int = 11) -> ModelSc:
    sc = model()
    sc.write(group("main", replicas, min_id))
    sc.settle()
    return sc


def ids(sc: ModelSc) -> list[int]:
    return sorted(spu.spec.id for spu in sc.kv.all_of(Spu))


def invalid(reason: str) -> SpuGroupStatus:
    return SpuGroupStatus(SpuGroupResolution.INVALID, reason)


def test_a_group_reserves_its_ids_and_has_its_spus_made_from_the_first_id() -> None:
    sc = model()
    template = SpuTemplate("rack-a", PublicEndpoint(0), size_bytes=7, log_directory="logs", configs={"a": "b"})
    sc.write(SpuGroup("main", SpuGroupSpec(2, SpuId(11), template)))
    sc.settle()
    assert [each.status.resolution for each in sc.kv.history_of(SpuGroup)] == [
        SpuGroupResolution.INIT,
        SpuGroupResolution.RESERVED,
    ]
    assert ids(sc) == [11, 12]
    spec = sc.spu(12).spec
    assert (spec.type, spec.group, spec.rack, spec.public) == (SpuType.MANAGED, "main", "rack-a", PublicEndpoint(0))
    assert (spec.size_bytes, spec.log_directory, spec.configs) == (7, "logs", {"a": "b"})
    assert [each.spu.spec.id for each in sc.actions if isinstance(each, Provision)] == [11, 12]
    assert sc.spu(11).is_online


def test_more_replicas_are_more_spus() -> None:
    sc = with_group(2)
    sc.scale("main", 4)
    sc.settle()
    assert ids(sc) == [11, 12, 13, 14]
    assert sorted(sc.provisioned) == [11, 12, 13, 14]


def test_fewer_replicas_take_the_highest_ids_one_after_the_other() -> None:
    sc = with_group(3)
    sc.actions.clear()
    sc.scale("main", 1)
    sc.settle()
    going = [each for each in sc.actions if isinstance(each, Delete | Terminate)]
    assert [each.object.spec.id if isinstance(each, Delete) else each for each in going if _is_of_spu(each)] == [
        13,
        Terminate(SpuId(13)),
        12,
        Terminate(SpuId(12)),
    ]
    assert ids(sc) == [11]
    assert sc.group("main").status == RESERVED


def _is_of_spu(action: Delete | Terminate) -> bool:
    return isinstance(action, Terminate) or isinstance(action.object, Spu)


def test_an_spu_that_holds_replicas_stays_and_those_below_it_until_it_holds_none() -> None:
    sc = with_group(3)
    sc.write(topic("t", 2, 1, {0: (13,), 1: (13,)}))
    sc.settle()
    sc.scale("main", 1)
    sc.settle()
    assert ids(sc) == [11, 12, 13]
    assert sc.group("main").status == replace(
        RESERVED, reason="SPU 13 is leaving but holds 2 replicas; it is deleted when these are moved or deleted"
    )
    sc.delete_topic("t")
    sc.settle()
    assert ids(sc) == [11]
    assert sc.group("main").status == RESERVED


def test_an_spu_that_is_to_go_stays_until_another_sc_has_read_what_it_holds() -> None:
    sc = with_group(3)
    sc.write(topic("t", 2, 1, {0: (13,), 1: (13,)}))
    sc.settle()
    sc.scale("main", 1)
    sc.settle()
    sc.crash()
    sc.settle()
    assert ids(sc) == [11, 12, 13]
    sc.delete_topic("t")
    sc.settle()
    assert ids(sc) == [11]


def test_replicas_on_a_leaving_spu_move_to_spus_that_stay() -> None:
    sc = with_group(3)
    sc.write(topic("t", 2, 2, {0: (13, 11), 1: (12, 13)}))
    sc.settle()
    sc.scale("main", 2)
    sc.settle()
    assert sc.status_of("t").replica_map == {0: (12, 11), 1: (12, 11)}
    assert sc.group("main").status.reason.startswith("SPU 13 is leaving but holds 2 replicas;")
    for number in (0, 1):
        partition = sc.partition(1, number)
        assert set(partition.spec.replicas) == {11, 12, 13}
        sc.report(partition, partition.spec.replicas)
        sc.settle()
        assert ids(sc) == ([11, 12, 13] if number == 0 else [11, 12])
    assert sc.partition(1).status.leads == 12
    assert sc.group("main").status == RESERVED


def test_with_a_majority_policy_a_leaving_spu_stays_until_others_have_taken_over() -> None:
    sc = with_group(3)
    made = topic("t", 1, 2, {0: (13, 11)})
    sc.write(replace(made, spec=replace(made.spec, configs={"replication.policy": "majority"})))
    sc.settle()
    sc.scale("main", 2)
    sc.settle()
    assert sc.status_of("t").replica_map == {0: (12, 11)}
    sc.report(sc.partition(1), (SpuId(11), SpuId(12), SpuId(13)))
    sc.settle()
    assert sc.partition(1).spec.copy_sets == ((13, 11), (12, 11)) and ids(sc) == [11, 12, 13]
    sc.report(sc.partition(1), (), has_taken_over=True)
    sc.settle()
    assert sc.partition(1).spec.replicas == (12, 11) and ids(sc) == [11, 12]


def test_an_spu_that_is_to_go_gets_no_new_replicas() -> None:
    sc = with_group(2)
    sc.write(topic("kept", 1, 1, {0: (12,)}))
    sc.settle()
    sc.scale("main", 1)
    sc.write(topic("t", 6, 1, number=2))
    sc.settle()
    assert set(sc.status_of("t").replica_map.values()) == {(11,)}


def test_an_spu_is_not_deleted_under_rows_that_are_just_being_written() -> None:
    sc = with_group(2)
    sc.write(topic("t", 2, 1))
    while sc.status_of("t").resolution is not TopicResolution.PROVISIONED:
        if not sc.writes:
            sc.deliver_from_store()
        elif isinstance(put := sc.writes[0], Put) and put.object.version == sc.topic("t").version:
            if sc.status_of("t").resolution is TopicResolution.PENDING:
                break  # The rows are being written.
            sc.carry_out_a_write()
    sc.scale("main", 1)
    sc.settle()
    assert ids(sc) == [11, 12]
    assert sc.group("main").status.reason.startswith("SPU 12 is leaving but holds 1 replica;")


def test_a_scale_down_that_is_taken_back_leaves_no_reason_behind() -> None:
    sc = with_group(2)
    sc.write(topic("t", 1, 1, {0: (12,)}))
    sc.settle()
    for replicas in (1, 2):
        sc.scale("main", replicas)
        sc.settle()
    assert sc.group("main").status == RESERVED


def test_a_deleted_group_takes_its_spus_along_as_a_scale_down_would() -> None:
    sc = with_group(3)
    sc.write(topic("t", 1, 1, {0: (12,)}))
    sc.settle()
    sc.remove(sc.group("main"))
    sc.settle()
    assert ids(sc) == [11, 12]
    sc.delete_topic("t")
    sc.settle()
    assert ids(sc) == []
    assert sc.provisioned == {}


def test_a_changed_template_reaches_all_spus_of_the_group() -> None:
    sc = with_group(2)
    sc.actions.clear()
    found = sc.group("main")
    sc.write(replace(found, spec=replace(found.spec, template=SpuTemplate(size_bytes=1))))
    sc.settle()
    for kind in (UpdateSpu, Provision):
        told = [each.spu for each in sc.actions if isinstance(each, kind)]
        assert [(spu.spec.id, spu.spec.size_bytes) for spu in told] == [(11, 1), (12, 1)]


def _lose_to_a_status(sc: ModelSc, spu: int) -> None:
    """Makes only the waiting write of the SPU's object lose to a write of its status."""
    sc.deliver_from_store()
    assert [each.object.spec.id for each in sc.writes if isinstance(each.object, Spu)] == [spu]
    sc.lose_a_write()
    sc.stop_spu(spu)
    sc.settle()


@pytest.mark.parametrize("is_deleted", [False, True])
def test_an_spu_that_is_to_go_goes_though_its_status_was_written_first(is_deleted: bool) -> None:
    sc = with_group(2)
    if is_deleted:
        sc.remove(sc.group("main"))
    else:
        sc.scale("main", 1)
    _lose_to_a_status(sc, 12)
    assert 12 not in ids(sc)


def test_a_changed_template_reaches_an_spu_though_its_status_was_written_first() -> None:
    sc = with_group(1)
    found = sc.group("main")
    sc.write(replace(found, spec=replace(found.spec, template=SpuTemplate(size_bytes=7))))
    _lose_to_a_status(sc, 11)
    assert sc.spu(11).spec.size_bytes == 7


@pytest.mark.parametrize(
    ("replicas", "min_id", "reason"),
    [
        (0, 1, "replicas: 0 is not between 1 and 1000"),
        (-1, 1, "replicas: -1 is not between 1 and 1000"),
        (1001, 1, "replicas: 1001 is not between 1 and 1000"),
        (2, 2**31 - 1, "minId: the ids 2147483647-2147483648 are not all between 0 and 2147483647"),
        (1, -1, "minId: the ids -1 are not all between 0 and 2147483647"),
    ],
)
def test_ids_that_cannot_be_are_a_reason(replicas: int, min_id: int, reason: str) -> None:
    sc = with_group(replicas, min_id)
    assert sc.group("main").status == invalid(reason)
    assert ids(sc) == []


def test_a_custom_spu_within_the_range_is_a_reason_until_it_goes() -> None:
    sc = model(12)
    sc.write(group("main", 2, 11))
    sc.settle()
    assert sc.group("main").status == invalid("of the ids 11-12 one is taken: SPU 12 is a custom SPU")
    assert ids(sc) == [12]
    sc.stop_spu(12)
    sc.remove(custom(12))
    sc.settle()
    assert sc.group("main").status == RESERVED
    assert ids(sc) == [11, 12]


def test_another_group_within_the_range_is_a_reason_until_it_goes() -> None:
    sc = with_group(2, 11)
    sc.write(group("a", 2, 12))
    sc.settle()
    assert sc.group("a").status == invalid("of the ids 12-13 one is taken: SPU 12 belongs to the group main")
    sc.remove(sc.group("main"))
    sc.settle()
    assert sc.group("a").status == RESERVED
    assert ids(sc) == [12, 13]


def test_the_first_of_two_concurrent_groups_gets_the_ids() -> None:
    sc = model()
    sc.write(group("b", 2, 11))
    sc.write(group("a", 2, 12))
    sc.settle()
    assert sc.group("b").status == RESERVED
    assert sc.group("a").status.resolution is SpuGroupResolution.INVALID
    assert {spu.spec.group for spu in sc.kv.all_of(Spu)} == {"b"}


def test_a_group_that_cannot_grow_keeps_what_it_has_and_says_why() -> None:
    sc = with_group(2, 11)
    sc.write(custom(13))
    sc.scale("main", 3)
    sc.settle()
    assert sc.group("main").status == invalid("of the ids 11-13 one is taken: SPU 13 is a custom SPU")
    assert ids(sc) == [11, 12, 13]
    sc.scale("main", 2)
    sc.settle()
    assert sc.group("main").status == RESERVED


def test_two_groups_scale_independently() -> None:
    sc = with_group(2, 11)
    sc.write(group("edge", 1, 100))
    sc.settle()
    sc.scale("edge", 2)
    sc.settle()
    assert ids(sc) == [11, 12, 100, 101]


def test_another_sc_provisions_what_is_managed_and_changes_nothing() -> None:
    sc = with_group(2)
    before = dict(sc.kv.objects)
    sc.crash()
    sc.settle()
    assert [each.spu.spec.id for each in sc.actions if isinstance(each, Provision)] == [11, 12]
    assert sc.kv.objects == before


def test_the_shelves_of_an_spu_that_is_to_go_are_filled_elsewhere_first() -> None:
    sc = with_group(3)
    sc.write(topic("t", 1, 1, {0: (11,)}))
    sc.settle()
    found = sc.partition(1)
    sc.write(replace(found, spec=replace(found.spec, shelves=(Shelf(0, 5, (SpuId(13),)),))))
    sc.settle()
    sc.scale("main", 2)
    sc.settle()
    assert sc.partition(1).spec.shelves == (Shelf(0, 5, (SpuId(13),), (SpuId(12),)),)
    assert sc.group("main").status == replace(
        RESERVED, reason="SPU 13 is leaving but holds 1 shelf; it is deleted when these are moved or deleted"
    )
    assert ids(sc) == [11, 12, 13]
    sc.report_shelves(sc.partition(1), (0, 12, 5))
    sc.settle()
    assert sc.partition(1).spec.shelves == (Shelf(0, 5, (SpuId(12),)),)
    assert sc.group("main").status == RESERVED
    assert ids(sc) == [11, 12]


def test_holdings_of_an_spu_in_words() -> None:
    assert [describe_holdings(*counts) for counts in ((1, 0), (0, 2), (2, 1))] == [
        "1 replica",
        "2 shelves",
        "2 replicas and 1 shelf",
    ]
