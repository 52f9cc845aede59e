"""Tests `tailrace group explain` on a whole SPU."""

import json

import pytest
import trio
from grouped_spu import Member, grouped_spu
from scripted_brokers import ScriptedBroker, scripted_brokers
from trio.testing import MockClock

from tailrace.cli.groups.group_commands import COMMANDS
from tailrace.cli.main import parse
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from tailrace.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerGroup

Capture = pytest.CaptureFixture[str]


async def test_a_group_that_waits_and_a_group_that_has_waited(autojump_clock: MockClock, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        await spu.produce("orders", 1, 4)
        await spu.commit("billing", "orders", {1: 1})
        slow = await spu.member("billing", "slow", "orders", [0, 1])
        fast = Member(spu, await spu.running.client(), "billing", "fast", "orders")
        await fast.ask_to_join()
        await trio.sleep(6)
        spu.clock.time_ms += 6_000

        assert await spu.tailrace("explain", "billing") == 0
        shown = capsys.readouterr().out
        assert "State:   PreparingRebalance\n" in shown
        assert "\n\nThe group has been rebalancing for 6 s, because fast joined.\n" in shown
        assert (
            "It waits for slow (test at 192.0.2.1) to join again, for at most 54 s more (max.poll.interval.ms: 60 s)."
            in shown
        )
        assert shown.endswith(
            "BEGAN                     TOOK   GENERATION  BECAUSE      WAITED FOR                FOR    GONE\n"
            "2023-11-14T22:13:20.000Z  -               -  fast joined  slow (test at 192.0.2.1)  6.0 s     -\n"
            "2023-11-14T22:13:20.000Z  0.0 s           1  slow joined  -                         -         -\n"
            "\nWhat would help:\n"
            "- All other members waited for slow (test at 192.0.2.1) for 6.0 s. A late member polls too rarely: "
            "do less work between polls (max.poll.records).\n"
        )

        await slow.join()
        await fast.joined()
        await slow.sync([0])
        assert await spu.tailrace("explain", "billing") == 0
        shown = capsys.readouterr().out
        assert "\nThe group has been stable for 0 s: its members read the partitions that they own.\n" in shown
        assert "No member owns orders/1, although members subscribe to it.\n" in shown
        assert "3 records are unread, the oldest is 6 s old; most of them (3) are in orders/1.\n" in shown
        assert "SPU 1 has coordinated the group for 6 s (partition 1 of __consumer_offsets, epoch 0) and" in shown
        assert "2023-11-14T22:13:20.000Z  6.0 s           2  fast joined  slow (test at 192.0.2.1)  6.0 s" in shown
        assert "\n\nWhat would help:\n- All other members waited for slow (test at 192.0.2.1) for 6.0 s." in shown


async def test_an_explanation_as_a_document(autojump_clock: MockClock, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        member = await spu.member("billing", "worker-1", "nope", [])
        await member.leave()
        assert await spu.tailrace("explain", "billing", "--output", "json") == 0
        document = json.loads(capsys.readouterr().out)
        assert (document["group"], document["type"], document["state"]) == ("billing", "classic", "Empty")
        assert document["coordinator"] == {
            "spuId": 1,
            "partition": 1,
            "epoch": 0,
            "since": "2023-11-14T22:13:20.000Z",
        }
        assert document["now"][0] == "The group has no members, because worker-1 left."
        assert document["advice"] == []
        left, joined = document["rebalances"]
        assert (left["cause"], left["generation"], left["arrivals"]) == ("worker-1 left", 2, [])
        participant = {
            "memberId": member.member_id,
            "instanceId": "worker-1",
            "clientId": "test",
            "host": "/192.0.2.1",
        }
        assert joined["arrivals"] == [participant | {"afterMs": 0}]
        assert joined["ended"] == "2023-11-14T22:13:20.000Z"
        assert (joined["waitedFor"], joined["waitedMs"]) == ([], None)


async def test_a_topic_that_members_wait_for_in_vain(autojump_clock: MockClock, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        await spu.member("billing", "worker-1", "nope", [])
        assert await spu.tailrace("explain", "billing") == 0
        shown = capsys.readouterr().out
        assert "Members subscribe to nope, which does not exist.\n" in shown


async def test_a_broker_that_knows_no_explanations(capsys: Capture) -> None:
    """Apache Kafka closes the connection when it is asked for an API that it does not know."""

    def script(broker: ScriptedBroker, request: object) -> object:
        if request.API_KEY == ApiKey.CONSUMER_GROUP_DESCRIBE:  # type: ignore[attr-defined]
            return ConsumerGroupDescribeResponse(groups=[ConsumerGroup(group_id="g", group_state="Stable")])
        broker.connections[-1].close()
        return None

    async with scripted_brokers(script) as cluster:
        words = parse(["group", "explain", "g", "--bootstrap", str(cluster.bootstrap[0])])
        assert await COMMANDS["explain"].execute(words, cluster.network) == 1
        assert capsys.readouterr().err.endswith("; only SPUs of Tailrace explain groups\n")
