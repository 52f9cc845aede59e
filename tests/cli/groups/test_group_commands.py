"""Tests `tailrace group` on a whole SPU."""

import json

import pytest
from grouped_spu import grouped_spu
from scripted_brokers import ScriptedBroker, scripted_brokers
from spus import ADDRESS

from tailrace.cli.groups.group_commands import COMMANDS
from tailrace.cli.main import parse
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from tailrace.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from tailrace.protocol.messages.list_groups import ListedGroup, ListGroupsResponse

Capture = pytest.CaptureFixture[str]


async def test_groups_are_listed(autojump_clock: object, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        await spu.member("billing", "worker-1", "orders", [0, 1])
        await spu.consumer("shipping", "m-1", "orders")
        await spu.commit("backfill", "orders", {0: 0})
        assert await spu.tailrace("list") == 0
        assert capsys.readouterr().out == (
            "GROUP     TYPE      PROTOCOL  STATE   COORDINATOR  MEMBERS\n"
            "backfill  classic   -         Empty             1        0\n"
            "billing   classic   consumer  Stable            1        1\n"
            "shipping  consumer  consumer  Stable            1        1\n"
        )
        assert await spu.tailrace("list", "--bootstrap", str(ADDRESS), "--type", "consumer", "--output", "json") == 0
        assert json.loads(capsys.readouterr().out) == [
            {
                "group": "shipping",
                "type": "consumer",
                "protocol": "consumer",
                "state": "Stable",
                "coordinator": 1,
                "members": 1,
            }
        ]
        assert await spu.tailrace("list", "--state", "empty", "--state", "Dead", "--output", "yaml") == 0
        assert capsys.readouterr().out.startswith("- {group: backfill, type: classic,")


async def test_a_group_is_described_with_its_lag(autojump_clock: object, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 3)
        now_ms = spu.clock.now_ms()
        await spu.produce("orders", 0, 10, timestamp=now_ms - 120_000)
        await spu.produce("orders", 1, 4)
        await spu.commit("billing", "orders", {0: 6, 1: 4})
        await spu.member("billing", "worker-1", "orders", [0, 2])
        assert await spu.tailrace("describe", "billing", "--members") == 0
        about, _, rest = capsys.readouterr().out.partition("Lag:         4\n")
        assert "State:       Stable\nAssignor:    range\nCoordinator: SPU 1\nMembers:     1\n" in about
        progress, _, members = rest.partition("\n\n")
        assert progress == (
            "TOPIC   PARTITION  COMMITTED  LOG END  LAG  BEHIND  MEMBER    CLIENT  HOST\n"
            "orders          0          6       10    4  2 m     worker-1  test    192.0.2.1\n"
            "orders          1          4        4    0  0 s     -         -       -\n"
            "orders          2          -        0    -  -       worker-1  test    192.0.2.1"
        )
        assert members.splitlines()[1].split()[1:] == [
            "worker-1",
            "test",
            "192.0.2.1",
            "-",
            "orders",
            "orders/0,2",
            "-",
        ]


async def test_groups_of_both_kinds_are_described_in_the_order_in_which_they_are_named(
    autojump_clock: object, capsys: Capture
) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        await spu.consumer("shipping", "m-1", "orders")
        await spu.commit("backfill", "orders", {0: 0})
        words = ("shipping", "backfill", "shipping", "--output", "json")
        assert await spu.tailrace("describe", *words) == 0
        shipping, backfill = json.loads(capsys.readouterr().out)
        assert (shipping["group"], shipping["type"], shipping["assignor"], shipping["lag"]) == (
            "shipping",
            "consumer",
            "uniform",
            None,
        )
        assert shipping["members"][0]["owns"] == shipping["members"][0]["shallOwn"] == ["orders/0", "orders/1"]
        assert [each["memberId"] for each in shipping["partitions"]] == ["m-1", "m-1"]
        assert (backfill["group"], backfill["members"], backfill["lag"]) == ("backfill", [], 0)


async def test_a_group_that_is_not_there(autojump_clock: object, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        for name in ("describe", "explain", "delete"):
            assert await spu.tailrace(name, "nobody") == 1
            said = capsys.readouterr()
            assert (said.out, said.err) == ("", f"tailrace group {name}: there is no group nobody\n")


async def test_groups_that_are_there_are_described_beside_others(autojump_clock: object, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        await spu.commit("backfill", "orders", {0: 0})
        assert await spu.tailrace("describe", "nobody", "backfill", "none", "--output", "json") == 1
        said = capsys.readouterr()
        assert [each["group"] for each in json.loads(said.out)] == ["backfill"]
        assert said.err == "tailrace group describe: there is no group nobody; there is no group none\n"


async def test_a_group_is_deleted_when_nobody_is_in_it(autojump_clock: object, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        member = await spu.member("billing", "worker-1", "orders", [0, 1])
        await spu.commit("backfill", "orders", {0: 0})
        assert await spu.tailrace("delete", "backfill", "billing", "nobody") == 1
        said = capsys.readouterr()
        assert said.out == "deleted group backfill\n"
        assert said.err == (
            "tailrace group delete: group billing has members: stop worker-1 (test at 192.0.2.1) first; "
            "there is no group nobody\n"
        )
        await member.leave()
        assert await spu.tailrace("delete", "billing", "--output", "json") == 0
        assert json.loads(capsys.readouterr().out) == [{"group": "billing"}]
        assert await spu.tailrace("list", "--output", "json") == 0
        assert json.loads(capsys.readouterr().out) == []


async def test_a_group_forgets_one_topic(autojump_clock: object, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        for topic in ("orders", "payments"):
            await spu.running.create(topic, 2)
            await spu.commit("backfill", topic, {0: 0, 1: 0})
        assert await spu.tailrace("delete", "backfill", "--topic", "orders", "--topic", "payments:1") == 0
        assert capsys.readouterr().out == (
            "backfill: deleted the offset of orders/0\n"
            "backfill: deleted the offset of orders/1\n"
            "backfill: deleted the offset of payments/1\n"
        )
        await spu.tailrace("describe", "backfill", "--output", "json")
        (group,) = json.loads(capsys.readouterr().out)
        assert [(each["topic"], each["partition"]) for each in group["partitions"]] == [("payments", 0)]
        assert await spu.tailrace("delete", "backfill", "--topic", "orders") == 1
        assert capsys.readouterr().err.endswith(": group backfill has not committed any offsets there\n")


async def test_what_members_are_subscribed_to_is_not_forgotten(autojump_clock: object, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 1)
        await spu.commit("billing", "orders", {0: 0})
        await spu.member("billing", "worker-1", "orders", [0])
        assert await spu.tailrace("delete", "billing", "--topic", "orders") == 1
        assert capsys.readouterr().err == (
            "tailrace group delete: the offsets of billing were not deleted: "
            "orders/0: members of the group subscribe to the topic\n"
        )


async def test_a_broker_without_the_new_protocol_is_asked_for_classic_groups_alone(capsys: Capture) -> None:
    def script(broker: ScriptedBroker, request: object) -> object:
        match request.API_KEY:  # type: ignore[attr-defined]
            case ApiKey.LIST_GROUPS:
                return ListGroupsResponse(groups=[ListedGroup("g", "consumer", "Stable", "Classic")])
            case ApiKey.DESCRIBE_GROUPS:
                described = DescribedGroup(group_id="g", group_state="Stable", protocol_type="consumer")
                return DescribeGroupsResponse(groups=[described])
        raise AssertionError(request)

    async with scripted_brokers(script) as cluster:
        del cluster.brokers[1].versions[ApiKey.CONSUMER_GROUP_DESCRIBE]
        words = parse(["group", "list", "--bootstrap", str(cluster.bootstrap[0])])
        assert await COMMANDS["list"].execute(words, cluster.network) == 0
        assert capsys.readouterr().out.splitlines()[1].split() == ["g", "classic", "consumer", "Stable", "1", "0"]


async def test_a_group_of_another_kind_is_listed_all_the_same(capsys: Capture) -> None:
    def script(broker: ScriptedBroker, request: object) -> object:
        match request.API_KEY:  # type: ignore[attr-defined]
            case ApiKey.LIST_GROUPS:
                return ListGroupsResponse(groups=[ListedGroup("jobs", "share", "Stable", "Share")])
            case ApiKey.CONSUMER_GROUP_DESCRIBE:
                return ConsumerGroupDescribeResponse()
        raise AssertionError(request)

    async with scripted_brokers(script) as cluster:
        words = parse(["group", "list", "--bootstrap", str(cluster.bootstrap[0])])
        assert await COMMANDS["list"].execute(words, cluster.network) == 0
        assert capsys.readouterr().out.splitlines()[1].split() == ["jobs", "share", "share", "Stable", "1", "-"]


async def test_a_broker_that_will_not_list_is_named_by_its_error(capsys: Capture) -> None:
    def script(broker: ScriptedBroker, request: object) -> object:
        return ListGroupsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    async with scripted_brokers(script) as cluster:
        words = parse(["group", "list", "--bootstrap", str(cluster.bootstrap[0])])
        assert await COMMANDS["list"].execute(words, cluster.network) == 1
        assert capsys.readouterr().err == "tailrace group list: CLUSTER_AUTHORIZATION_FAILED\n"
