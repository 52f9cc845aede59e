"""Tests `tailrace doctor` with a real SC and real SPUs in memory; compat_tests run it as a process."""

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from clusters import ClusterOfSpus, cluster_of
from public_sc import tailrace
from spus import SteadyClock
from structlog.testing import capture_logs

from tailrace.cli.health.doctor_command import doctor_command
from tailrace.cli.main import parse

ANYWHERE = ("--sc", "sc:9003", "--bootstrap", "spu-1:9005")


async def _doctor(cluster: ClusterOfSpus, *words: str) -> int:
    command = doctor_command(cluster.world.clock, lambda: None)
    return await command.execute(parse(["doctor", *ANYWHERE, *words]), cluster.world.network)


async def _document(cluster: ClusterOfSpus, capsys: pytest.CaptureFixture[str], status: int) -> dict[str, Any]:
    assert await _doctor(cluster, "--output", "json") == status
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def _levels(document: dict[str, Any]) -> dict[str, str]:
    return {each["subject"]: each["level"] for each in document["findings"]}


async def test_the_doctor_finds_what_is_wrong_with_a_cluster(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    with capture_logs():
        async with cluster_of(1, 2) as cluster:
            assert await cluster.create(1, "orders", 1, 2, min_insync_replicas="2") == 0
            assert await cluster.create(1, "safe", 1, 1, flush_messages="1") == 0
            assert await _doctor(cluster) == 0
            shown = capsys.readouterr().out
            assert shown.startswith("ok       All is well according to the SC at sc:9003.\n")
            assert "each address that clients are told leads to its SPU: spu-1:9005 and spu-2:9005.\n" in shown
            assert "TOPICS  COPIES  ONLY IN MEMORY FOR UP TO\n" in shown
            document = await _document(cluster, capsys, 0)
            others = _levels(document)
            assert others.pop("access") == "warning"  # the cluster is open, and listens to other machines
            assert set(others.values()) == {"ok"}
            assert document["lossWindows"] == [
                {"topic": "orders", "copies": 2, "windowMs": 1000},
                {"topic": "safe", "copies": 1, "windowMs": 0},
            ]

            await cluster.kill_spu(2)
            await trio.sleep(5)
            document = await _document(cluster, capsys, 1)
            assert _levels(document)["cluster"] == "problem"
            cluster.clocks[2] = SteadyClock(cluster.world.clock.now_ms() + 60_000)
            await cluster.start_spu(2)
            await trio.sleep(5)
            document = await _document(cluster, capsys, 1)
            assert _levels(document)["cluster"] == "ok"
            assert _levels(document)["clocks"] == "problem"

            await cluster.kill_sc()
            document = await _document(cluster, capsys, 1)
            first = document["findings"][0]
            assert (first["subject"], first["level"]) == ("cluster", "problem")
            assert first["text"].startswith("1 thing is wrong, first: The SC at sc:9003 does not answer")
            assert _levels(document)["loss window"] == "warning"
            await cluster.kill_spu(1)
            await cluster.kill_spu(2)
            assert await _doctor(cluster) == 3


async def test_an_address_that_leads_to_another_spu_or_to_none_is_found(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with capture_logs():
        async with cluster_of(1, 2) as cluster:
            path = tmp_path / "spu.json"

            async def told(host: str) -> list[str]:
                path.write_text(json.dumps({"spuId": 2, "publicEndpoint": {"ingress": [{"hostname": host}]}}))
                apply = ("apply", "--kind", "spu", "--file", str(path), "--sc", "sc:9003")
                assert await tailrace(cluster.world.network, *apply) == 0
                await trio.sleep(5)
                capsys.readouterr()
                document = await _document(cluster, capsys, 1)
                return [each["text"] for each in document["findings"] if each["level"] == "problem"]

            assert await told("spu-1") == ["Clients are told spu-1:9005 for SPU 2, and SPU 1 answers there."]
            (nowhere,) = await told("nowhere")
            assert nowhere.startswith(
                "Clients are told nowhere:9005 for SPU 2, which does not work from this machine: "
            )
            assert nowhere.endswith("connection refused.")
