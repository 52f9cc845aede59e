"""Tests the state store against the public port of an SC with a complete workflow."""

import pytest
import structlog
import trio
from member_owners import RecordingOwner
from public_sc import ADDRESS, PublicSc, public_sc, tailrace
from simulation.network import MemoryNetwork

from tailrace.cluster.stream_state.stream_state import GroupState, StreamMember, StreamRead
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.wall_clock import SystemClock
from tailrace.trigger.membership.member import MembershipConfig
from tailrace.trigger.replica.membership_task import Membership
from tailrace.trigger.replica.state_store import ScStateStore, StateConflictError, StateUnavailableError

GROUP = "my-consumer-group"
STATE = GroupState((StreamMember("replica1", frozenset({0, 1, 5}), 1_769_860_800_000, "5f0c", 10_000),), epoch=1)


def _store(sc: PublicSc, topic: str = "my-stream") -> ScStateStore:
    return ScStateStore(sc.network, [ADDRESS], topic, GROUP)


async def test_of_two_writers_that_have_read_the_same_version_one_succeeds(autojump_clock: object) -> None:
    async with public_sc() as sc:
        await sc.running.create_topic("my-stream", 12)
        first, second = _store(sc), _store(sc)
        before = await first.read()
        assert before == await second.read() == StreamRead(12)
        version = await first.write(STATE, before.version)
        with pytest.raises(StateConflictError):
            await second.write(GroupState(), before.version)
        read = await second.read()
        assert (read.state, read.version, dict(read.ages_ms)) == (STATE, version, {"replica1": 0})
        await trio.sleep(4)
        assert (await second.read()).ages_ms == {"replica1": 4000}
        first.close()
        second.close()


async def test_a_topic_that_is_not_there_makes_the_state_unavailable() -> None:
    async with public_sc() as sc:
        store = _store(sc, "other")
        with pytest.raises(StateUnavailableError, match=r"^there is no topic other$"):
            await store.read()
        with pytest.raises(StateUnavailableError, match=r"^there is no topic other$"):
            await store.write(STATE, 0)
        store.close()


async def test_an_sc_that_does_not_respond_makes_the_state_unavailable() -> None:
    store = ScStateStore(MemoryNetwork(), [ADDRESS], "my-stream", GROUP)
    with pytest.raises(StateUnavailableError, match="does not answer: connection refused"):
        await store.read()
    with pytest.raises(StateUnavailableError, match="does not answer: connection refused"):
        await store.write(STATE, 0)


async def test_a_request_that_was_given_up_does_not_disturb_the_next_one() -> None:
    async with public_sc() as sc:
        await sc.running.create_topic("my-stream", 12)
        store = _store(sc)
        await store.read()
        with trio.CancelScope() as scope:
            scope.cancel()
            await store.read()
        store.reconnect()
        assert (await store.read()).shards == 12
        store.close()


async def test_three_replicas_divide_a_stream_as_the_command_shows(
    autojump_clock: object, capsys: pytest.CaptureFixture[str]
) -> None:
    async with public_sc() as sc, trio.open_nursery() as nursery:
        await sc.running.create_topic("my-stream", 12)
        stores = [_store(sc) for _ in range(3)]
        memberships = []
        for number, store in enumerate(stores):
            owner = RecordingOwner()
            membership = Membership(
                MembershipConfig(member_id=f"replica{number + 1}", replicas=3),
                store,
                owner,
                SystemClock(),
                RandomChance(number),
                structlog.get_logger(),
            )
            owner.membership = membership
            memberships.append(membership)
            nursery.start_soon(membership.run)
            await owner.has_gained.wait()
        assert await tailrace(sc.network, "trigger", "state", "my-stream") == 0
        printed = capsys.readouterr().out
        assert '"member_id": "replica2",\n    "shards": "4-7",' in printed
        assert [sorted(each.shards) for each in memberships] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
        await memberships[1].leave()
        assert await tailrace(sc.network, "trigger", "state", "my-stream") == 0
        assert '"replica2"' not in capsys.readouterr().out
        nursery.cancel_scope.cancel()
    for store in stores:
        store.close()
