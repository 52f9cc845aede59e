"""Configs on the SC's public port, which speaks Kafka's protocol like any broker."""

import pytest
from public_sc import ADDRESS, PublicSc, public_sc, tailrace

from tailrace.cli.administration.config_commands import COMMANDS
from tailrace.cli.main import parse

Capture = pytest.CaptureFixture[str]


async def config(sc: PublicSc, *words: str) -> int:
    return await COMMANDS[words[0]].execute(parse(["config", *words, "--sc", str(ADDRESS)]), sc.network)


async def test_configs_are_set_and_reset_with_what_they_were(capsys: Capture) -> None:
    async with public_sc() as sc:
        spu = ("--id", "1", "--public", "one:9005", "--private", "one:9006")
        assert await tailrace(sc.network, "spu", "register", *spu) == 0
        await sc.running.connect(1)
        assert await tailrace(sc.network, "topic", "create", "orders", "--bootstrap", str(ADDRESS)) == 0
        capsys.readouterr()
        assert await config(sc, "describe", "topic", "orders") == 0
        assert capsys.readouterr().out.startswith("no config is set; --all shows the defaults\n")
        assert await config(sc, "set", "topic", "orders", "retention.ms=5000") == 0
        assert capsys.readouterr().out == "CONFIG           BEFORE  AFTER\nretention.ms  604800000   5000\n"
        assert await config(sc, "reset", "topic", "orders", "retention.ms") == 0
        assert capsys.readouterr().out == "CONFIG        BEFORE      AFTER\nretention.ms    5000  604800000\n"
        assert await config(sc, "set", "topic", "orders", "retention.msec=1") == 1
        assert "there is no config 'retention.msec'; did you mean retention.ms?" in capsys.readouterr().err


async def test_a_broker_is_named_by_its_id_or_all(capsys: Capture) -> None:
    async with public_sc() as sc:
        assert await config(sc, "describe", "broker", "first") == 2
        assert "'first' is neither the id of a broker nor `all`" in capsys.readouterr().err
