"""Tests which SPUs a command asks, and how long it retries."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from scripted_brokers import ScriptedBroker, ScriptedBrokers, scripted_brokers

from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.client.spu_client import BOOTSTRAP, PATIENCE_SECONDS, SILENCE_SECONDS_MAX, SpuClient
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tailrace.runtime.network import Address

GROUPS = ("a", "b", "c")


def _nothing(broker: ScriptedBroker, request: Any) -> Any:
    return ListGroupsResponse()


def _client(cluster: ScriptedBrokers) -> SpuClient:
    return SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP)


async def test_everybody_is_asked_for_what_is_his() -> None:
    async with scripted_brokers(_nothing, 1, 2, 3) as cluster:
        cluster.leaders = {"orders": [1, 3, 3]}
        client = _client(cluster)
        asked: dict[int, list[tuple[str, int]]] = {}

        async def ask(spu_id: int, keys: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
            asked[spu_id] = sorted(keys)
            return dict.fromkeys(keys, spu_id)

        keys = [("orders", number) for number in range(3)]
        assert await client.ask_each(keys, client.leaders, ask) == {keys[0]: 1, keys[1]: 3, keys[2]: 3}
        assert asked == {1: keys[:1], 3: keys[1:]}
        client.close()


async def test_what_is_not_there_is_refused_at_once() -> None:
    async with scripted_brokers(_nothing) as cluster:
        cluster.leaders = {"orders": [1]}
        client = _client(cluster)
        answers = await client.leaders([("orders", 0), ("orders", 1), ("nope", 0)])
        assert answers["orders", 0] == 1
        for each in (("orders", 1), ("nope", 0)):
            refused = answers[each]
            assert isinstance(refused, RefusedError)
            assert refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        client.close()


async def test_a_coordinator_that_is_loading_is_asked_again(autojump_clock: trio.testing.MockClock) -> None:
    async with scripted_brokers(_nothing) as cluster:
        client = _client(cluster)
        loading = RefusedError("loading", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        asked: list[list[str]] = []

        async def ask(spu_id: int, keys: Sequence[str]) -> dict[str, str | RefusedError]:
            asked.append(list(keys))
            return {key: loading if key == "b" and len(asked) < 4 else "done" for key in keys}

        began = trio.current_time()
        assert await client.ask_each(GROUPS, client.coordinators, ask) == dict.fromkeys(GROUPS, "done")
        assert asked == [[*GROUPS], ["b"], ["b"], ["b"]]
        assert trio.current_time() - began == pytest.approx(0.1 + 0.2 + 0.4)
        client.close()


async def test_answers_come_in_the_order_of_what_was_asked() -> None:
    async with scripted_brokers(_nothing) as cluster:
        client = _client(cluster)

        async def ask(spu_id: int, keys: Sequence[str]) -> dict[str, str]:
            return {key: key.upper() for key in reversed(keys) if key != "b"}

        answers = await client.ask_each(("c", "b", "a", "c"), client.coordinators, ask)
        assert list(answers) == ["c", "b", "a"]
        assert (answers["a"], answers["c"]) == ("A", "C")
        assert str(answers["b"]) == "the response does not contain this"
        client.close()


async def test_a_group_that_has_moved_is_followed(autojump_clock: trio.testing.MockClock) -> None:
    async with scripted_brokers(_nothing, 1, 2) as cluster:
        client = _client(cluster)

        async def ask(spu_id: int, keys: Sequence[str]) -> dict[str, int | RefusedError]:
            if spu_id == 1:
                cluster.coordinator = 2
                return dict.fromkeys(keys, RefusedError("not here", ErrorCode.NOT_COORDINATOR))
            return dict.fromkeys(keys, spu_id)

        assert await client.ask_each(["a"], client.coordinators, ask) == {"a": 2}
        client.close()


async def test_patience_ends_with_what_was_said_last(autojump_clock: trio.testing.MockClock) -> None:
    async with scripted_brokers(_nothing) as cluster:
        cluster.leaders = {"orders": [-1]}
        client = _client(cluster)

        async def ask(spu_id: int, keys: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
            raise AssertionError("nobody leads it")

        began = trio.current_time()
        refused = (await client.ask_each([("orders", 0)], client.leaders, ask))["orders", 0]
        assert isinstance(refused, RefusedError)
        assert refused.code == ErrorCode.LEADER_NOT_AVAILABLE
        assert PATIENCE_SECONDS - 2 <= trio.current_time() - began <= PATIENCE_SECONDS
        client.close()


async def test_who_has_died_is_waited_for_until_another_has_what_was_his(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with scripted_brokers(_nothing, 1, 2) as cluster:
        client = _client(cluster)
        cluster.coordinator = 2
        failures = 0

        async def ask(spu_id: int, keys: Sequence[str]) -> dict[str, int]:
            nonlocal failures
            try:
                await client.ask(spu_id, ListGroupsRequest())
            except UnreachableError:
                failures += 1
                if failures == 3:
                    cluster.coordinator = 1
                raise
            return dict.fromkeys(keys, spu_id)

        assert await client.ask_each(["a"], client.coordinators, ask) == {"a": 2}
        cluster.brokers[2].stop()
        assert await client.ask_each(["a"], client.coordinators, ask) == {"a": 1}
        assert failures == 3
        client.close()


async def test_who_has_named_the_others_may_die(autojump_clock: trio.testing.MockClock) -> None:
    async with scripted_brokers(_nothing, 1, 2) as cluster:
        cluster.leaders = {"orders": [1]}
        client = _client(cluster)
        assert await client.leaders([("orders", 0)]) == {("orders", 0): 1}
        cluster.brokers[1].stop()
        cluster.leaders = {"orders": [2]}
        assert await client.leaders([("orders", 0)]) == {("orders", 0): 2}
        client.close()


async def test_while_nobody_is_there_at_all_it_is_waited(autojump_clock: trio.testing.MockClock) -> None:
    async with scripted_brokers(_nothing, 1) as cluster:
        client = _client(cluster)
        await client.metadata()
        cluster.brokers[1].stop()

        async def ask(spu_id: int, keys: Sequence[str]) -> dict[str, int]:
            return dict.fromkeys(keys, spu_id)

        began = trio.current_time()
        with pytest.raises(UnreachableError, match="the broker at spu-1:9005 does not answer"):
            await client.ask_each(["a"], client.coordinators, ask)
        assert trio.current_time() - began > PATIENCE_SECONDS / 2
        client.close()


async def test_who_stays_dead_is_named_in_the_end(autojump_clock: trio.testing.MockClock) -> None:
    async with scripted_brokers(_nothing, 1, 2) as cluster:
        client = _client(cluster)
        cluster.coordinator = 2
        cluster.brokers[2].stop()

        async def ask(spu_id: int, keys: Sequence[str]) -> dict[str, int]:
            await client.ask(spu_id, ListGroupsRequest())
            raise AssertionError("nobody is there")

        with pytest.raises(
            UnreachableError, match=r"^the SPU at spu-2:9005 does not answer: .* shows which are online"
        ):
            await client.ask_each(["a"], client.coordinators, ask)
        client.close()


@pytest.mark.parametrize("is_guide", [False, True])
async def test_a_frozen_leader_is_given_up_when_the_patience_ends(
    autojump_clock: trio.testing.MockClock, *, is_guide: bool
) -> None:
    """No SC elects another leader. The frozen SPU may also be the first that the client asks for the others."""
    async with scripted_brokers(_nothing, 1, 2) as cluster:
        frozen = 1 if is_guide else 2
        cluster.leaders = {"orders": [frozen]}
        cluster.brokers[frozen].is_frozen = True
        client = SpuClient(cluster.network, [each.address for each in cluster.brokers.values()], BOOTSTRAP)

        async def ask(spu_id: int, keys: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
            await client.ask(spu_id, ListGroupsRequest())
            raise AssertionError("it responded")

        began = trio.current_time()
        await client.metadata(["orders"])
        with pytest.raises(UnreachableError, match=f"SPU at spu-{frozen}:9005 does not answer: it sent nothing"):
            await client.ask_each([("orders", 0)], client.leaders, ask)
        assert PATIENCE_SECONDS - 2 <= trio.current_time() - began <= PATIENCE_SECONDS
        client.close()


async def test_an_impatient_client_keeps_what_the_others_answer(autojump_clock: trio.testing.MockClock) -> None:
    async with scripted_brokers(_nothing, 1, 2) as cluster:
        cluster.leaders = {"orders": [1, 2, -1]}
        cluster.brokers[2].is_frozen = True
        client = _client(cluster)
        impatient = client.impatient(1.5)
        await impatient.metadata()
        began = trio.current_time()
        answers = await impatient.ask_each(
            [("orders", each) for each in range(3)],
            impatient.leaders,
            lambda spu, keys: _list_groups(impatient, spu, keys),
        )
        assert trio.current_time() - began <= 1.5
        assert answers["orders", 0] == 1
        assert "spu-2:9005 does not answer" in str(answers["orders", 1])
        assert isinstance(answers["orders", 2], RefusedError)
        client.close()
        impatient.close()


async def test_the_leader_after_a_frozen_one_is_found_in_time(autojump_clock: trio.testing.MockClock) -> None:
    async with scripted_brokers(_nothing, 1, 2) as cluster:
        cluster.leaders = {"orders": [2]}
        client = _client(cluster)
        await client.ask_each([("orders", 0)], client.leaders, lambda spu, keys: _list_groups(client, spu, keys))
        cluster.brokers[2].is_frozen = True

        async def elect() -> None:
            await trio.sleep(2)
            cluster.leaders = {"orders": [1]}

        async with trio.open_nursery() as nursery:
            nursery.start_soon(elect)
            found = await client.ask_each(
                [("orders", 0)], client.leaders, lambda spu, keys: _list_groups(client, spu, keys)
            )
            assert found == {("orders", 0): 1}
        client.close()


async def test_a_slow_response_is_waited_for_while_parts_of_it_arrive(autojump_clock: trio.testing.MockClock) -> None:
    async with scripted_brokers(_nothing, 1) as cluster:
        client = _client(cluster)
        await client.metadata()
        cluster.brokers[1].pause_seconds = SILENCE_SECONDS_MAX - 1
        began = trio.current_time()
        assert await client.ask_each(["a"], _always_1, lambda spu, keys: _list_groups(client, spu, keys)) == {"a": 1}
        assert trio.current_time() - began > PATIENCE_SECONDS
        client.close()


async def test_patience_begins_anew_after_each_useful_response(autojump_clock: trio.testing.MockClock) -> None:
    async with scripted_brokers(_nothing, 1) as cluster:
        client = _client(cluster)
        cluster.brokers[1].pause_seconds = 1
        began = trio.current_time()
        while trio.current_time() - began < 2 * PATIENCE_SECONDS:
            await client.metadata()
        client.close()


async def _list_groups(client: SpuClient, spu_id: int, keys: Sequence[Any]) -> dict[Any, int]:
    await client.ask(spu_id, ListGroupsRequest())
    return dict.fromkeys(keys, spu_id)


async def test_who_has_closed_a_connection_is_asked_on_another(autojump_clock: trio.testing.MockClock) -> None:
    async with scripted_brokers(_nothing) as cluster:
        client = _client(cluster)

        async def ask(spu_id: int, keys: Sequence[str]) -> dict[str, int]:
            await client.ask(spu_id, ListGroupsRequest())
            return dict.fromkeys(keys, spu_id)

        assert await client.ask_each(["a"], client.coordinators, ask) == {"a": 1}
        cluster.brokers[1].connections[1].close()
        assert await client.ask_each(["a"], _always_1, ask) == {"a": 1}
        client.close()


async def _always_1(keys: Sequence[str]) -> dict[str, int | RefusedError]:
    return dict.fromkeys(keys, 1)


async def test_anybody_who_answers_finds_the_coordinator() -> None:
    async with scripted_brokers(_nothing, 1, 2) as cluster:
        client = SpuClient(cluster.network, [Address("gone", 1), cluster.brokers[2].address], BOOTSTRAP)
        cluster.brokers[1].stop()
        assert await client.coordinators(["a"]) == {"a": 1}
        assert [each.API_KEY for each in cluster.brokers[2].heard] == [ApiKey.METADATA, ApiKey.FIND_COORDINATOR]
        client.close()


async def test_a_version_is_agreed_upon() -> None:
    heard: list[tuple[list[str], list[str]]] = []

    def script(broker: ScriptedBroker, request: ListGroupsRequest) -> ListGroupsResponse:
        heard.append((request.states_filter, request.types_filter))
        return ListGroupsResponse()

    async with scripted_brokers(script, 1, 2, 3) as cluster:
        cluster.brokers[2].versions[ApiKey.LIST_GROUPS] = (0, 4)
        del cluster.brokers[3].versions[ApiKey.LIST_GROUPS]
        client = _client(cluster)
        await client.metadata()
        request = ListGroupsRequest(["Empty"], ["classic"])
        await client.ask(1, request)
        await client.ask(1, request, version_max=4)
        await client.ask(2, request)
        assert heard == [(["Empty"], ["classic"]), (["Empty"], []), (["Empty"], [])]
        with pytest.raises(RefusedError, match=r"^the server at spu-3:9005 does not support ListGroups$") as caught:
            await client.ask(3, request)
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
        client.close()


async def test_who_serves_no_such_request_has_refused_it() -> None:
    async with scripted_brokers(_nothing) as cluster:
        del cluster.brokers[1].versions[ApiKey.LIST_GROUPS]
        client = _client(cluster)

        async def ask(spu_id: int, keys: Sequence[str]) -> dict[str, int]:
            await client.ask(spu_id, ListGroupsRequest())
            raise AssertionError("it does not serve that")

        (answer,) = (await client.ask_each(["a"], client.coordinators, ask)).values()
        assert isinstance(answer, RefusedError)
        assert answer.code == ErrorCode.UNSUPPORTED_VERSION
        client.close()


async def test_an_spu_that_nobody_knows_is_not_online() -> None:
    async with scripted_brokers(_nothing) as cluster:
        client = _client(cluster)
        await client.metadata()
        with pytest.raises(UnreachableError, match=r"^SPU 7 is not online"):
            await client.ask(7, ListGroupsRequest())
        client.close()
