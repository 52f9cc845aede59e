"""`tailrace config` through SPUs in memory; compat_tests run it against Apache Kafka as well."""

import json

import pytest
import trio
from administered import administered, through_brokers

Capture = pytest.CaptureFixture[str]


async def test_configs_are_set_and_reset_with_what_they_were(
    autojump_clock: trio.testing.MockClock, capsys: Capture
) -> None:
    async with administered(1) as (cluster, _):
        assert await cluster.create(1, "orders", 1, 1) == 0
        assert await through_brokers(cluster, "config", "describe", "topic", "orders") == 0
        assert capsys.readouterr().out.startswith("no config is set; --all shows the defaults\n")
        assert await through_brokers(cluster, "config", "set", "topic", "orders", "retention.ms=5000") == 0
        assert capsys.readouterr().out == "CONFIG           BEFORE  AFTER\nretention.ms  604800000   5000\n"
        assert await through_brokers(cluster, "config", "list", "topic", "--output", "json") == 0
        (listed,) = json.loads(capsys.readouterr().out)
        assert (listed["topic"], listed["name"], listed["value"]) == ("orders", "retention.ms", "5000")
        assert await through_brokers(cluster, "config", "reset", "topic", "orders", "retention.ms") == 0
        assert capsys.readouterr().out == "CONFIG        BEFORE      AFTER\nretention.ms    5000  604800000\n"
        assert await through_brokers(cluster, "config", "set", "topic", "orders", "retention.msec=1") == 1
        assert "there is no config 'retention.msec'; did you mean retention.ms?" in capsys.readouterr().err


async def test_a_broker_is_named_by_its_id_and_all_of_them_by_no_name(
    autojump_clock: trio.testing.MockClock, capsys: Capture
) -> None:
    async with administered(1, 2) as (cluster, _):
        for words in (("set", "broker", "log.retention.ms=9000"), ("set", "broker", "2", "log.retention.ms=8000")):
            assert await through_brokers(cluster, "config", *words) == 0
        capsys.readouterr()
        shown = []
        for name in ((), ("all",), ("1",), ("2",)):
            words = ("describe", "broker", *name, "log.retention.ms", "--output", "json")
            assert await through_brokers(cluster, "config", *words) == 0
            (config,) = json.loads(capsys.readouterr().out)
            assert config["documentation"]
            shown.append((config["value"], config["source"]))
        assert shown == [
            ("9000", "cluster default"),
            ("9000", "cluster default"),
            ("9000", "cluster default"),
            ("8000", "broker"),
        ]
        assert await through_brokers(cluster, "config", "describe", "broker", "2", "log.retention.ms") == 0
        assert "  without that: 9000 (cluster default, log.retention.ms)\n" in capsys.readouterr().out
        assert await through_brokers(cluster, "config", "set", "broker", "log.retention.msec=1") == 1
        assert "did you mean log.retention.ms?" in capsys.readouterr().err
        assert await through_brokers(cluster, "config", "describe", "broker", "first") == 2
        assert "'first' is neither the id of a broker nor `all`" in capsys.readouterr().err
        assert await through_brokers(cluster, "config", "describe", "broker", "7") == 1
        assert capsys.readouterr().err.endswith("the broker 7 is not online\n")
        assert await through_brokers(cluster, "config", "set", "topic", "retention.ms=1") == 2


async def test_a_group_has_documented_configs(autojump_clock: trio.testing.MockClock, capsys: Capture) -> None:
    async with administered(1) as (cluster, _):
        words = ("group", "billing", "consumer.session.timeout.ms")
        assert await through_brokers(cluster, "config", "set", *words[:2], f"{words[2]}=50000") == 0
        capsys.readouterr()
        assert await through_brokers(cluster, "config", "describe", *words, "--output", "json") == 0
        (config,) = json.loads(capsys.readouterr().out)
        assert (config["value"], config["source"]) == ("50000", "group")
        assert config["documentation"]
        assert [each["source"] for each in config["synonyms"]] == ["group", "default"]
