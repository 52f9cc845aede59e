import json
import sys
from pathlib import Path

import pytest
import trio
from deployed_triggers import FUNCTION, deploy, function_file, report
from public_sc import public_sc, tailrace
from running_workflow import RecordedReplicas
from scripted_brokers import ScriptedBroker
from trio.testing import MockClock

from tailrace.controller.state.actions import KeepReplica
from tailrace.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from tailrace.runtime.network import Address
from tailrace.trigger.functions.deployed_function import read_deployed


async def test_a_function_is_stored_with_its_configuration_and_its_replicas_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replicas = RecordedReplicas()
    async with public_sc(replicas) as sc:
        await deploy(sc, tmp_path, "--max-workers", "4", "--metrics", "127.0.0.1:9100")
        assert capsys.readouterr().out == (
            "created trigger bill: revision 1, 3 replicas; `tailrace trigger describe bill` shows what they do\n"
        )
        assert list(replicas.kept.values()) == [
            KeepReplica("bill", f"replica{number}", 1, sys.executable, Address("127.0.0.1", 9099 + number))
            for number in (1, 2, 3)
        ]
        assert await tailrace(sc.network, "trigger", "describe", "bill", "--output", "json") == 0
        (document,) = json.loads(capsys.readouterr().out)
        deployed = read_deployed(document)
        assert (deployed.config.name, deployed.config.topic, deployed.config.max_workers) == ("bill", "orders", 4)
        assert deployed.source.source == FUNCTION
        assert deployed.source.handler == "bill"


async def test_deploying_again_replaces_the_function_or_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with public_sc(RecordedReplicas()) as sc:
        await deploy(sc, tmp_path)
        path = function_file(tmp_path)
        for text, words, expected in (
            (FUNCTION, (), "trigger bill is unchanged"),
            (FUNCTION, ("--replicas", "5"), "scaled trigger bill: revision 1, 5 replicas"),
            (FUNCTION + "\n# new", (), "changed trigger bill: revision 2, 3 replicas"),
        ):
            function_file(tmp_path, text)
            capsys.readouterr()
            assert await tailrace(sc.network, "trigger", "deploy", path, *words) == 0
            assert capsys.readouterr().out.startswith(expected)
        await tailrace(sc.network, "trigger", "pause", "bill")
        capsys.readouterr()
        assert await tailrace(sc.network, "trigger", "deploy", path, "--max-workers", "2") == 0
        assert capsys.readouterr().out == "changed trigger bill: revision 3, 3 replicas; it is paused\n"


async def test_a_trigger_may_be_deployed_before_its_topic_exists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with public_sc() as sc:
        path = function_file(tmp_path)
        assert await tailrace(sc.network, "trigger", "deploy", path, "--min-replicas", "1") == 0
        assert capsys.readouterr().out == (
            "created trigger bill: revision 1, 1 to 3 replicas; it waits: there is no topic orders\n"
        )


async def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        path = function_file(tmp_path, "def (")
        assert await tailrace(sc.network, "trigger", "deploy", path) == 2
        assert capsys.readouterr().err.startswith(f"tailrace trigger deploy: {path}: line 1: ")


async def test_two_triggers_in_one_group_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await deploy(sc, tmp_path)
        assert await tailrace(sc.network, "trigger", "deploy", function_file(tmp_path), "--name", "other") == 1
        assert "the trigger bill reads orders in the group billing already" in capsys.readouterr().err


async def test_a_deployment_can_wait_until_all_replicas_handle_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], autojump_clock: MockClock
) -> None:
    async with public_sc(RecordedReplicas()) as sc:
        await sc.running.create_topic("orders", 12)
        path, statuses = function_file(tmp_path), []

        async def run() -> None:
            statuses.append(await tailrace(sc.network, "trigger", "deploy", path, "--replicas", "2", "--wait", "30"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await trio.sleep(2)
            await report(sc, "replica1")
            await trio.sleep(2)
            assert not statuses
            await report(sc, "replica2")
        assert statuses == [0]
        capsys.readouterr()
        function_file(tmp_path, FUNCTION + "\n# new")
        await report(sc, "replica2")
        assert await tailrace(sc.network, "trigger", "deploy", path, "--replicas", "2", "--wait", "3") == 4
        assert capsys.readouterr().err.splitlines()[-1] == (
            "tailrace trigger deploy: replica2 of trigger bill still runs revision 1"
        )
        await trio.sleep(20)
        assert await tailrace(sc.network, "trigger", "deploy", path, "--replicas", "2", "--wait", "3") == 4
        late = "of trigger bill does not handle records yet; its process: running"
        assert capsys.readouterr().err.splitlines() == [
            f"tailrace trigger deploy: replica{number} {late}" for number in (1, 2)
        ]


async def _serve(broker: ScriptedBroker) -> None:
    assert broker.listener is not None
    while True:
        await broker.serve(await broker.listener.accept())


async def test_brokers_of_another_cluster_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = function_file(tmp_path, FUNCTION.replace('group="billing"', 'group="billing", brokers=["b:9092"]'))
    async with public_sc() as sc, trio.open_nursery() as nursery:
        await sc.running.create_topic("orders")
        cluster_ids = ["another", sc.running.workflow.cluster.cluster_id]
        broker = ScriptedBroker(
            1,
            Address("b", 9092),
            lambda *_: MetadataResponse(
                brokers=[MetadataResponseBroker(1, "b", 9092)], cluster_id=cluster_ids.pop(0), controller_id=1
            ),
        )
        broker.listener = await sc.network.listen(broker.address)
        nursery.start_soon(_serve, broker)
        assert await tailrace(sc.network, "trigger", "deploy", file) == 1
        assert "the trigger names b:9092, which belongs to another cluster than the SC at" in capsys.readouterr().err
        assert await tailrace(sc.network, "trigger", "deploy", file) == 0
        nursery.cancel_scope.cancel()
