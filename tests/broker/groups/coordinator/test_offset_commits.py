from uuid import UUID

import pytest
from classic_groups import Client, stable_group
from committing import BY_ID, ask_commit, ask_fetch, commit, fetch
from consumer_stories import Consumer
from grouping import Asked, GroupWorld
from hypothesis import given
from hypothesis import strategies as st
from transactional_groups import TransactionalGroupWorld, commit_in_transaction

from tailrace.broker.groups.coordinator import offset_commits
from tailrace.broker.groups.coordinator.offset_commits import COMMIT_BYTES_MAX, is_longer
from tailrace.cluster.stream_state.commit_epochs import CommitEpoch, format_commit_epoch
from tailrace.protocol.codec.primitives import NO_UUID
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
ORDERS, PAYMENTS = 7001, 7002


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.use(initial_rebalance_delay_ms=0)
    world.put_topic("orders", 4, ORDERS)
    world.put_topic("payments", 2, PAYMENTS)
    world.restart()
    return world


# commits of clients that are no members


def test_the_last_commit_determines_the_offset(world: GroupWorld) -> None:
    assert commit(world, "g", {("orders", 0): 5, ("payments", 1): 6}) == {("orders", 0): NONE, ("payments", 1): NONE}
    commit(world, "g", {("orders", 0): 3}, metadata="héllo", leader_epoch=9)
    assert fetch(world, "g") == {("orders", 0): 3, ("payments", 1): 6}
    (partition,) = ask_fetch(world, "g", [("orders", 0)]).reply.topics[0].partitions
    assert (partition.committed_leader_epoch, partition.metadata) == (9, "héllo")


def test_what_the_record_says(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 2): 5}, metadata=None, leader_epoch=4)
    (record,) = world.log
    assert (record.key.group, record.key.topic, record.key.partition) == ("g", "orders", 2)
    value = record.value
    assert value is not None
    assert (value.offset, value.leader_epoch, value.metadata) == (5, 4, "")
    assert (value.commit_timestamp, value.expire_timestamp) == (world.now_ms, -1)
    assert value.topic_id == world.cluster.topics["orders"].id


def test_the_first_commit_makes_a_group_of_offsets_only(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5})
    for _ in range(2):
        group = world.coordinator.groups["g"]
        assert (group.state, group.protocol_type, group.kind) == ("Empty", "", "classic")
        world.restart()
    assert len(world.log) == 1, "the group itself is not stored"


def test_a_commit_of_nothing_makes_no_group(world: GroupWorld) -> None:
    for offsets in ({}, {("nothing", 0): 1}, {("orders", 4): 1}):
        commit(world, "g", offsets)
    commit(world, "g", {("orders", 0): 5}, metadata="m" * 4097)
    assert not world.coordinator.groups and not world.log


@pytest.mark.parametrize("version", [2, 8, 9])
def test_only_partitions_that_do_not_exist_are_refused(world: GroupWorld, version: int) -> None:
    offsets = {("nothing", 0): 1, ("orders", 0): 2, ("orders", 4): 3, ("orders", -1): 4}
    errors = {("nothing", 0): UNKNOWN, ("orders", 0): NONE, ("orders", 4): UNKNOWN, ("orders", -1): UNKNOWN}
    assert commit(world, "g", offsets, version=version) == errors
    assert fetch(world, "g") == {("orders", 0): 2}


def test_topics_are_named_by_ids_from_some_version_on(world: GroupWorld) -> None:
    orders = world.cluster.topics["orders"].id
    unknown = UUID(int=99)
    topics = [
        OffsetCommitRequestTopic(topic_id=orders, partitions=[OffsetCommitRequestPartition(index) for index in (0, 4)]),
        OffsetCommitRequestTopic(topic_id=unknown, partitions=[OffsetCommitRequestPartition(0)]),
        OffsetCommitRequestTopic(topic_id=NO_UUID, partitions=[OffsetCommitRequestPartition(1)]),
        OffsetCommitRequestTopic(topic_id=orders),
    ]
    request = OffsetCommitRequest("g", topics=topics)
    asked = world.ask(lambda coordinator, moment, waiter: coordinator.offsets.commit(request, BY_ID, waiter, moment))
    found = [(topic.topic_id, [each.error_code for each in topic.partitions]) for topic in asked.reply.topics]
    assert found == [
        (orders, [NONE, UNKNOWN]),
        (unknown, [ErrorCode.UNKNOWN_TOPIC_ID]),
        (NO_UUID, [ErrorCode.UNKNOWN_TOPIC_ID]),
    ]
    assert fetch(world, "g") == {("orders", 0): 0}


@pytest.mark.parametrize(
    ("version", "error"),
    [(2, ErrorCode.ILLEGAL_GENERATION), (8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_members_of_a_group_that_is_not_there(world: GroupWorld, version: int, error: ErrorCode) -> None:
    offsets = {("orders", 0): 2, ("orders", 4): 3}
    errors = commit(world, "g", offsets, version=version, generation=5, member="m")
    assert errors == {("orders", 0): error, ("orders", 4): UNKNOWN}
    assert not world.coordinator.groups


def test_the_group_is_not_asked_about_what_does_not_exist(world: GroupWorld) -> None:
    assert commit(world, "g", {("orders", 4): 3}, generation=5, member="m") == {("orders", 4): UNKNOWN}


def test_a_refusal_does_not_wait_for_what_others_commit(world: GroupWorld) -> None:
    offsets, output = world.coordinator.offsets, world.coordinator.output
    for name in ("orders", "nothing"):
        topic = OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0)])
        offsets.commit(OffsetCommitRequest("g", topics=[topic]), 9, Asked(), world.moment)
    assert len(output.responses) == len(output.responses_at_once) == len(output.records) == 1


def test_members_alone_commit_to_a_group_with_members(world: GroupWorld) -> None:
    (client,) = stable_group(world, 1)
    offsets = {("orders", 0): 5}

    def error(**more: object) -> int:
        return commit(world, client.group_id, offsets, **more)[("orders", 0)]

    assert error() == ErrorCode.UNKNOWN_MEMBER_ID
    assert error(generation=client.generation, member="somebody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert error(generation=client.generation + 1, member=client.member_id) == ErrorCode.ILLEGAL_GENERATION
    assert fetch(world, client.group_id) == {}
    assert error(generation=client.generation, member=client.member_id) == NONE
    assert fetch(world, client.group_id) == offsets


def test_a_commit_keeps_its_member_in_the_group(world: GroupWorld) -> None:
    (client,) = stable_group(world, 1)
    for _ in range(5):
        world.pass_time(client.session_seconds * 0.8)
        errors = commit(
            world, client.group_id, {("orders", 0): 5}, generation=client.generation, member=client.member_id
        )
        assert errors == {("orders", 0): NONE}


def test_a_commit_before_the_new_assignment_has_to_be_retried(world: GroupWorld) -> None:
    (first,) = stable_group(world, 1)
    second = Client(world)
    second.join()
    assert commit(world, first.group_id, {("orders", 0): 5}, generation=first.generation, member=first.member_id) == {
        ("orders", 0): NONE
    }, "as long as the old generation is not over"
    first.join()
    generation = first.joined_reply.generation_id
    errors = commit(world, first.group_id, {("orders", 0): 6}, generation=generation, member=first.member_id)
    assert errors == {("orders", 0): ErrorCode.REBALANCE_IN_PROGRESS}
    assert fetch(world, first.group_id) == {("orders", 0): 5}


# bounds


def test_the_metadata_limit_counts_characters_as_java_does(world: GroupWorld) -> None:
    too_large = {("orders", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    for metadata in ("m" * 4096, "é" * 4096, "𝄞" * 2048):
        assert commit(world, "g", {("orders", 0): 1}, metadata=metadata) == {("orders", 0): NONE}
    for metadata in ("m" * 4097, "𝄞" * 2049):
        assert commit(world, "g", {("orders", 0): 2}, metadata=metadata) == too_large
    world.use(offset_metadata_bytes_max=3)
    assert commit(world, "g", {("orders", 0): 2}, metadata="four") == too_large
    assert fetch(world, "g") == {("orders", 0): 1}


@given(st.text(), st.integers(0, 40))
def test_the_length_of_a_text_in_java(text: str, length_max: int) -> None:
    assert is_longer(text, length_max) == (len(text.encode("utf-16-le")) // 2 > length_max)


def test_a_commit_that_is_too_large_for_a_batch_is_refused(world: GroupWorld) -> None:
    partitions = [OffsetCommitRequestPartition(0, 1, committed_metadata="m" * 4096)] * (COMMIT_BYTES_MAX // 4096)
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("orders", partitions=partitions)])
    asked = world.ask(lambda coordinator, moment, waiter: coordinator.offsets.commit(request, 9, waiter, moment))
    assert {each.error_code for each in asked.reply.topics[0].partitions} == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert not world.log


def test_a_group_whose_name_fits_into_no_record_commits_nothing(world: GroupWorld) -> None:
    asked = ask_commit(world, "g" * 40_000, {("orders", 0): 7})
    assert asked.error is not None
    assert asked.error.code == ErrorCode.INVALID_REQUEST
    assert not world.coordinator.groups
    assert not world.log


def test_metadata_of_any_length_is_refused_as_metadata(world: GroupWorld) -> None:
    errors = commit(world, "g", {("orders", 0): 1}, metadata="é" * COMMIT_BYTES_MAX)
    assert errors == {("orders", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}


# clients that set the retention of their offsets


@pytest.mark.parametrize(
    ("retention_ms", "expires"),
    [(0, 0), (1000, 1000), (-5, -5), (2**62, 2**62), (2**63 - 1, None), (-(2**63), None)],
)
def test_old_clients_say_when_an_offset_expires(world: GroupWorld, retention_ms: int, expires: int | None) -> None:
    commit(world, "g", {("orders", 0): 1}, version=2, retention_ms=retention_ms, metadata="m")
    value = world.log[0].value
    assert value is not None and value.topic_id == NO_UUID, "there is no room for more in such a record"
    if expires is not None:
        assert value.expire_timestamp == world.now_ms + expires
    else:
        assert value.expire_timestamp == (2**63 - 1 if retention_ms > 0 else 0)
    before = world.coordinator.offsets.committed.get("g", "orders", 0)
    world.restart()
    assert world.coordinator.offsets.committed.get("g", "orders", 0) == before


def test_metadata_that_fits_into_no_record_is_refused(world: GroupWorld) -> None:
    world.use(offset_metadata_bytes_max=100_000)
    text = "\N{REPLACEMENT CHARACTER}" * 11_000
    errors = commit(world, "g", {("orders", 0): 1}, version=4, retention_ms=1000, metadata=text)
    assert errors == {("orders", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert commit(world, "g", {("orders", 0): 2}, version=4, metadata=text) == {("orders", 0): NONE}
    world.restart()
    assert fetch(world, "g") == {("orders", 0): 2}


# commits of triggers


def _trigger(epoch: int, member: str = "replica1") -> str:
    return format_commit_epoch(CommitEpoch(epoch, member))


def test_a_late_commit_of_an_older_trigger_epoch_is_fenced_also_after_a_restart(world: GroupWorld) -> None:
    first, second = {("orders", 0): 5}, {("orders", 0): 6}
    assert commit(world, "g", first, metadata=_trigger(2)) == {("orders", 0): NONE}
    assert commit(world, "g", first, metadata=_trigger(3, "replica2")) == {("orders", 0): NONE}
    for _ in range(2):
        late = commit(world, "g", {**second, ("orders", 1): 1}, metadata=_trigger(2))
        assert late == {("orders", 0): ErrorCode.STALE_MEMBER_EPOCH, ("orders", 1): NONE}
        assert fetch(world, "g", [("orders", 0)]) == first
        world.restart()
    assert commit(world, "g", second, metadata=_trigger(3, "replica2")) == {("orders", 0): NONE}
    assert fetch(world, "g", [("orders", 0)]) == second


def test_a_commit_without_a_trigger_epoch_is_never_fenced(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5}, metadata=_trigger(9))
    assert commit(world, "g", {("orders", 0): 1}) == {("orders", 0): NONE}
    assert commit(world, "g", {("orders", 0): 2}, metadata=_trigger(1)) == {("orders", 0): NONE}


def test_the_epochs_of_a_trigger_begin_again_with_a_new_topic_of_the_same_name(world: GroupWorld) -> None:
    commit(world, "g", {("orders", 0): 5}, metadata=_trigger(9))
    world.put_topic("orders", 4, 7003)
    assert commit(world, "g", {("orders", 0): 0}, metadata=_trigger(1)) == {("orders", 0): NONE}


# commits in transactions


@pytest.fixture
def transactional() -> TransactionalGroupWorld:
    world = TransactionalGroupWorld()
    world.use(initial_rebalance_delay_ms=0)
    world.put_topic("orders", 4, ORDERS)
    world.put_topic("a", 4)
    world.restart()
    return world


ONE = {("orders", 0): 5}


def errors(world: GroupWorld, group: str = "g", **more: object) -> ErrorCode:
    (error,) = set(commit_in_transaction(world, group, ONE, **more).values())  # type: ignore[arg-type]
    return ErrorCode(error)


def test_partitions_that_do_not_exist_are_refused_in_transactions_too(transactional: TransactionalGroupWorld) -> None:
    offsets = {("nothing", 0): 1, ("orders", 0): 2, ("orders", 4): 3, ("orders", -1): 4}
    refused = {("nothing", 0): UNKNOWN, ("orders", 0): NONE, ("orders", 4): UNKNOWN, ("orders", -1): UNKNOWN}
    assert commit_in_transaction(transactional, "g", offsets) == refused
    assert len(transactional.log) == 1


def test_a_transaction_may_commit_for_a_group_without_members(transactional: TransactionalGroupWorld) -> None:
    assert errors(transactional) == NONE
    assert errors(transactional, "h", generation=0) == ErrorCode.ILLEGAL_GENERATION
    assert "h" not in transactional.coordinator.groups
    assert errors(transactional, "") == ErrorCode.INVALID_GROUP_ID


def test_transactions_are_fenced_by_generation_and_member_of_classic_groups(
    transactional: TransactionalGroupWorld,
) -> None:
    (client,) = stable_group(transactional, 1, instance_id="i")
    member: dict[str, object] = {"member": client.member_id, "generation": client.generation}
    group = client.group_id
    assert errors(transactional, group, **member) == NONE
    assert errors(transactional, group, **member, instance="i") == NONE
    assert errors(transactional, group) == NONE, "clients before version 3 do not name a member"
    assert errors(transactional, group, **{**member, "generation": client.generation - 1}) == (
        ErrorCode.ILLEGAL_GENERATION
    )
    assert errors(transactional, group, **{**member, "member": "zombie"}) == ErrorCode.UNKNOWN_MEMBER_ID
    assert errors(transactional, group, **{**member, "member": "zombie"}, instance="i") == (
        ErrorCode.FENCED_INSTANCE_ID
    )
    client.leave()


def test_a_rebalance_does_not_delay_transactions_of_its_members(transactional: TransactionalGroupWorld) -> None:
    (first,) = stable_group(transactional, 1)
    second = Client(transactional)
    second.join()
    first.join()
    known: dict[str, object] = {"member": first.member_id, "generation": first.joined_reply.generation_id}
    assert commit(transactional, first.group_id, ONE, **known) == {("orders", 0): ErrorCode.REBALANCE_IN_PROGRESS}
    assert errors(transactional, first.group_id, **known) == NONE


def test_a_commit_in_a_transaction_keeps_no_member_in_the_group(transactional: TransactionalGroupWorld) -> None:
    (client,) = stable_group(transactional, 1)
    known: dict[str, object] = {"member": client.member_id, "generation": client.generation}
    for _ in range(2):
        assert errors(transactional, client.group_id, **known) == NONE
        transactional.pass_time(client.session_seconds * 0.6)
    assert errors(transactional, client.group_id, **known) == ErrorCode.UNKNOWN_MEMBER_ID


def test_transactions_are_fenced_by_the_epoch_of_members_of_consumer_groups(
    transactional: TransactionalGroupWorld,
) -> None:
    member = Consumer(transactional, "m")
    member.join()
    known: dict[str, object] = {"member": "m", "generation": member.epoch}
    assert errors(transactional, "g", **known) == NONE
    assert errors(transactional, "g") == NONE, "clients before version 3 do not name a member"
    assert errors(transactional, "g", **{**known, "generation": member.epoch - 1}) == ErrorCode.ILLEGAL_GENERATION
    assert errors(transactional, "g", **{**known, "generation": member.epoch + 1}) == ErrorCode.ILLEGAL_GENERATION
    assert errors(transactional, "g", **{**known, "member": "zombie"}) == ErrorCode.UNKNOWN_MEMBER_ID


def test_sizes_are_limited_in_transactions_too(
    transactional: TransactionalGroupWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert errors(transactional, metadata="m" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    monkeypatch.setattr(offset_commits, "COMMIT_BYTES_MAX", 100)
    assert errors(transactional, metadata="m" * 100) == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert errors(transactional) == NONE


def test_only_so_many_offsets_are_pending(
    transactional: TransactionalGroupWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_commits, "PENDING_OFFSETS_MAX", 1)
    assert errors(transactional) == NONE
    assert errors(transactional) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    transactional.end(7, is_commit=True)
    assert errors(transactional) == NONE


def test_a_late_commit_of_an_older_trigger_epoch_is_fenced_in_a_transaction(
    transactional: TransactionalGroupWorld,
) -> None:
    commit(transactional, "g", ONE, metadata=_trigger(3))
    assert errors(transactional, metadata=_trigger(2)) == ErrorCode.ILLEGAL_GENERATION
    assert errors(transactional, metadata=_trigger(3)) == NONE
