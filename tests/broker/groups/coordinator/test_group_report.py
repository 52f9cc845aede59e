import pytest
from classic_groups import GROUP, Client, assign, group_of, stable_group
from committing import commit
from grouping import CALLER, GroupWorld
from transactional_groups import commit_in_transaction

from tailrace.broker.groups.common.rebalances import LATE, SILENT
from tailrace.broker.groups.coordinator.group_report import PARTICIPANTS_MAX, explain_group
from tailrace.protocol.internal.explain_group import (
    ExplainGroupResponse,
    GroupTransaction,
    RebalanceArrival,
    RebalanceParticipant,
)
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    world.use(initial_rebalance_delay_ms=0)
    return world


def _explained(world: GroupWorld) -> ExplainGroupResponse:
    return explain_group(
        world.coordinator.groups[GROUP], world.settings, world.coordinator.offsets.pending, world.now_ms
    )


def _participant(client: Client) -> RebalanceParticipant:
    return RebalanceParticipant(client.member_id, client.instance_id, CALLER.client_id, CALLER.host)


def test_who_was_late_and_by_how_much(world: GroupWorld) -> None:
    (first,) = stable_group(world, 1)
    began_ms = world.now_ms
    second = Client(world)
    second.join()
    world.pass_time(4.5)
    assert first.heartbeat()
    first.join()
    assign([first, second])
    explained = _explained(world)
    assert (explained.group_type, explained.state, explained.now_ms) == ("classic", "Stable", began_ms + 4_500)
    assert (explained.session_timeout_ms, explained.rebalance_timeout_ms) == (10_000, 60_000)
    before, last = explained.rebalances
    assert before.generation == 1
    assert last.cause == f"{second.member_id} joined"
    assert (last.began_ms, last.joined_ms, last.ended_ms) == (began_ms, world.now_ms, world.now_ms)
    assert (last.generation, last.expected, last.departures) == (2, [], [])
    assert last.arrivals == [RebalanceArrival(_participant(second), 0), RebalanceArrival(_participant(first), 4_500)]


def test_whom_a_rebalance_waits_for(world: GroupWorld) -> None:
    (first,) = stable_group(world, 1)
    Client(world).join()
    (_, last) = _explained(world).rebalances
    assert last.expected == [_participant(first)]
    assert (last.joined_ms, last.ended_ms, last.generation) == (-1, -1, -1)


def test_late_members_are_told_apart_from_silent_ones(world: GroupWorld) -> None:
    first, second = stable_group(world, 2, session_seconds=100.0)
    third = Client(world, session_seconds=100.0)
    third.join()
    first.join()
    world.pass_time(60)
    (late,) = _explained(world).rebalances[-1].departures
    assert (late.participant, late.after_ms) == (_participant(second), 60_000)
    assert late.why.startswith(LATE)

    assign([first, third])
    world.pass_time(50)
    assert not first.heartbeat()
    world.pass_time(50)
    assert f"{third.member_id} {SILENT} for 100 s" in _explained(world).rebalances[-1].cause


def test_a_group_of_the_new_protocol_is_explained_alike(world: GroupWorld) -> None:
    world.put_topic("orders", 2)
    request = ConsumerGroupHeartbeatRequest(
        GROUP, "m-1", 0, rebalance_timeout_ms=90_000, subscribed_topic_names=["orders"], topic_partitions=[]
    )
    world.ask(lambda coordinator, moment, asked: coordinator.consumer.heartbeat(request, 1, CALLER, asked, moment))
    explained = _explained(world)
    assert (explained.group_type, explained.state) == ("consumer", "Stable")
    assert explained.session_timeout_ms == world.settings.consumer_session_timeout_ms
    assert explained.rebalance_timeout_ms == 90_000
    (only,) = explained.rebalances
    assert only.cause == "m-1 joined"
    assert [each.participant.member_id for each in only.arrivals] == ["m-1"]
    assert only.ended_ms == world.now_ms


def test_of_very_many_members_some_are_listed_and_all_are_counted(world: GroupWorld) -> None:
    (first,) = stable_group(world, 1)
    count = PARTICIPANTS_MAX + 50
    for _ in range(count):
        Client(world).join()
    (_, last) = _explained(world).rebalances
    assert (last.arrival_count, len(last.arrivals)) == (count, PARTICIPANTS_MAX)
    assert (last.expected_count, last.expected) == (1, [_participant(first)])
    members = list(group_of(world).members)
    assert last.arrivals[-1].participant.member_id == members[-1].member_id
    first.join()
    for _ in range(3):
        Client(world).join()
    (*_, newest) = _explained(world).rebalances
    assert (newest.expected_count, len(newest.expected)) == (count + 1, PARTICIPANTS_MAX)


def test_the_open_transactions_of_a_group(world: GroupWorld) -> None:
    world.put_topic("orders", 3)
    commit_in_transaction(world, GROUP, {("orders", 0): 5}, 7)
    world.pass_time(2)
    commit_in_transaction(world, GROUP, {("orders", 0): 6, ("orders", 1): 6}, 7)
    commit_in_transaction(world, GROUP, {("orders", 2): 7}, 8)
    commit_in_transaction(world, "another", {("orders", 2): 7}, 9)
    commit(world, GROUP, {("orders", 2): 8})
    assert _explained(world).transactions == [GroupTransaction(7, 2, world.now_ms), GroupTransaction(8, 1, -1)]
