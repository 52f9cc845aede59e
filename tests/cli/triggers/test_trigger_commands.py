import json
from pathlib import Path

import pytest
import trio
from deployed_triggers import deploy, own, report
from public_sc import PublicSc, public_sc, tailrace
from running_workflow import RecordedReplicas
from trio.testing import MockClock

from tailrace.cli.health import status_command
from tailrace.cli.main import parse
from tailrace.cluster.stream_state.replica_report import ShardReport, ShardState


def write(path: str, text: str) -> None:
    Path(path).write_text(text)


async def run(sc: PublicSc, capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    capsys.readouterr()
    assert await tailrace(sc.network, "trigger", *words) == status
    captured = capsys.readouterr()
    return captured.out if status == 0 else captured.err


async def test_triggers_are_listed_with_their_lag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc(RecordedReplicas()) as sc:
        await deploy(sc, tmp_path)
        await report(sc, "replica1", ShardReport(shard=0, lag=7), ShardReport(shard=1, lag=5))
        assert (await run(sc, capsys, "list")).splitlines() == [
            "NAME  TOPIC   GROUP    REPLICAS  READY  REVISION  LAG  STATUS   REASON",
            "bill  orders  billing         3      1         1   12  Running       -",
        ]


async def test_a_trigger_is_described_with_its_replicas_and_shards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with public_sc(RecordedReplicas()) as sc:
        await deploy(sc, tmp_path, shards=3)
        await own(sc, replica1={0, 1})
        shards = (
            ShardReport(shard=0, state=ShardState.HANDLING, marked=5, committed=3, end=9, lag=4, lag_seconds=2.0),
            ShardReport(shard=1, state=ShardState.STOPPED, marked=7, committed=7, end=9, lag=2, error="ValueError: no"),
        )
        await report(sc, "replica1", *shards, workers=4, busy_workers=1, events=12, events_per_second=3.0)
        shown = await run(sc, capsys, "describe", "bill")
        fields = dict(line.split(": ", 1) for line in shown.partition("\n\n")[0].splitlines())
        assert fields["Trigger"].strip() == "bill"
        assert fields["Function"].strip() == f"{tmp_path / 'billing.py'}:bill"
        assert fields["Guarantee"].strip() == "at-least-once"
        assert fields["Dead letters"].strip() == "orders.billing.dead"
        tables = [[line.split() for line in part.splitlines()] for part in shown.split("\n\n")[1:]]
        assert tables[0][1] == ["replica1", "1", "member", "1/4", "0-1", "12", "3", "0", "0", "-"]
        assert tables[0][2] == ["replica2", "1", "running", *"-" * 7]
        assert tables[1][1] == ["0", "replica1", "handling", "5", "3", "9", "4", "2", "s", "-"]
        assert tables[1][2] == ["1", "replica1", "stopped", "7", "7", "9", "2", "0", "s", "ValueError:", "no"]
        assert tables[1][3] == ["2", "-", "no", "replica", *"-" * 6]
        (document,) = json.loads(await run(sc, capsys, "describe", "bill", "--output", "json"))
        assert document["status"]["shards"][0]["marked"] == 5
        assert document["status"]["shards"][2] == {"shard": 2}
        assert document["status"]["replicas"][1] == {"name": "replica2", "revision": 1, "process": "running"}


async def test_an_access_key_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await deploy(sc, tmp_path)
        (document,) = json.loads(await run(sc, capsys, "describe", "bill", "--output", "json"))
        config = {**document["spec"]["config"], "access_key": "secret"}
        stored = {"name": "bill", "spec": {**document["spec"], "config": config}}
        await sc.running.objects.update("trigger", json.dumps(stored))
        for words in (("describe", "bill"), ("list",)):
            shown = await run(sc, capsys, *words, "--output", "json")
            assert "secret" not in shown
            assert "********" in shown


async def test_replicas_are_scaled_within_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replicas = RecordedReplicas()
    async with public_sc(replicas) as sc:
        await deploy(sc, tmp_path)
        assert await run(sc, capsys, "scale", "bill", "1") == "scaled trigger bill to 1 replica\n"
        assert list(replicas.kept) == [("bill", "replica1")]
        assert await run(sc, capsys, "scale", "bill", "--min", "2", "--max", "5") == (
            "scaled trigger bill from 2 to 5 replicas\n"
        )
        assert len(replicas.kept) == 2
        assert await run(sc, capsys, "scale", "bill", "4") == "scaled trigger bill to 4 replicas\n"
        assert len(replicas.kept) == 4
        assert "minReplicas: 5 is more than replicas, 4" in await run(
            sc, capsys, "scale", "bill", "--min", "5", status=2
        )
        assert "give the number of replicas" in await run(sc, capsys, "scale", "bill", status=2)
        assert await run(sc, capsys, "scale", "ship", "1", status=1) == (
            "tailrace trigger scale: there is no trigger ship\n"
        )


async def test_a_redeployment_replaces_one_replica_after_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replicas = RecordedReplicas()
    async with public_sc(replicas) as sc:
        await deploy(sc, tmp_path)
        assert await run(sc, capsys, "redeploy", "bill") == (
            "trigger bill switches to revision 2, one replica after another\n"
        )
        assert [each.revision for each in replicas.kept.values()] == [2, 1, 1]
        for number in (1, 2, 3):
            await report(sc, f"replica{number}", revision=2)
        assert [each.revision for each in replicas.kept.values()] == [2, 2, 2]


async def test_a_paused_trigger_stops_and_a_resumed_one_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replicas = RecordedReplicas()
    async with public_sc(replicas) as sc:
        await deploy(sc, tmp_path)
        await report(sc, "replica1", ShardReport(shard=0, lag=7))
        assert (await run(sc, capsys, "pause", "bill")).startswith("paused trigger bill")
        assert (await run(sc, capsys, "list")).splitlines()[1].split()[3:] == ["0", "0", "1", "-", "Paused", "-"]
        assert not replicas.kept
        assert await run(sc, capsys, "explain", "bill") == (
            "The trigger is paused. `tailrace trigger resume bill` starts its replicas again.\n"
        )
        assert (await run(sc, capsys, "resume", "bill")).startswith("resumed trigger bill")
        assert len(replicas.kept) == 3
        assert (await run(sc, capsys, "delete", "bill")).startswith("deleted trigger bill")
        assert not replicas.kept
        assert (
            await run(sc, capsys, "delete", "bill", status=1) == "tailrace trigger delete: there is no trigger bill\n"
        )


async def test_a_shard_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc(RecordedReplicas()) as sc:
        await deploy(sc, tmp_path, shards=2)
        await sc.running.objects.create("spu", json.dumps({"spuId": 1}), 0)
        await sc.running.connect(1)
        await own(sc, replica1={0, 1})
        failed = ShardReport(shard=1, state=ShardState.RETRYING, offset=7, attempt=2, error="ValueError: no")
        await report(sc, "replica1", ShardReport(shard=0), failed)
        shown = await run(sc, capsys, "explain", "bill", "--shard", "1", "--output", "json")
        assert json.loads(shown) == {
            "trigger": "bill",
            "explanation": [
                "Shard 1 waits: the event at offset 7 has failed in 2 attempts and is handled again after a pause: "
                "ValueError: no."
            ],
        }
        whole = await run(sc, capsys, "explain", "bill")
        assert whole.splitlines()[0] == "The trigger has 3 replicas."
        assert "replica2 has not reported for a while; its process: running." in whole
        assert "--shard 2: orders has shards from 0 to 1" in await run(
            sc, capsys, "explain", "bill", "--shard", "2", status=2
        )


async def test_a_trigger_whose_topic_is_gone_can_be_described(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with public_sc(RecordedReplicas()) as sc:
        await deploy(sc, tmp_path)
        await sc.running.objects.delete("topic", "orders", force=False)
        await sc.running.workflow.writes.wait_until(
            lambda: not sc.running.workflow.local.triggers["bill"].status.revisions
        )
        shown = await run(sc, capsys, "describe", "bill")
        assert "Waiting\nReason:       there is no topic orders" in shown
        assert "there is no topic orders" in await run(sc, capsys, "explain", "bill", "--shard", "1")


async def test_the_number_of_replicas_follows_the_lag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], autojump_clock: MockClock
) -> None:
    replicas = RecordedReplicas()
    async with public_sc(replicas) as sc:
        await deploy(sc, tmp_path, "--min-replicas", "1", "--replicas", "3")
        assert list(replicas.kept) == [("bill", "replica1")]
        while len(replicas.kept) < 3:
            await trio.sleep(2)
            await report(sc, "replica1", ShardReport(shard=0, lag=1000, lag_seconds=trio.current_time()))
        (row,) = json.loads(await run(sc, capsys, "list", "--output", "json"))
        assert row["status"]["reason"] == "records have waited for more than 10 s"
        while len(replicas.kept) > 1:
            await trio.sleep(2)
            for number in range(1, len(replicas.kept) + 1):
                await report(sc, f"replica{number}", ShardReport(shard=number), workers=1)
        assert "no record has waited for 2 s or more in 60 s" in await run(sc, capsys, "describe", "bill")


async def test_a_trigger_that_is_run_by_hand_is_shown_as_far_as_it_reports(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with public_sc() as sc:
        await sc.running.create_topic("orders", 2)
        assert await run(sc, capsys, "describe", "bill", status=1) == (
            "tailrace trigger describe: there is no trigger bill\n"
        )
        await own(sc, replica1={0, 1})
        stopped = ShardReport(shard=1, state=ShardState.STOPPED, offset=7, marked=7, lag=2, error="ValueError: no")
        await report(sc, "replica1", ShardReport(shard=0), stopped, workers=2)
        assert (await run(sc, capsys, "list")).splitlines()[1].split() == (
            ["bill", "orders", "billing", "1", "1", "1", "2", "RunByHand", "-"]
        )
        shown = await run(sc, capsys, "describe", "bill")
        assert "Status:   RunByHand" in shown
        assert "ValueError: no" in shown
        assert (await run(sc, capsys, "explain", "bill")).splitlines()[:2] == [
            "The trigger is not deployed; 1 replica runs by hand.",
            "Shard 1 has stopped: the event at offset 7 has failed for good: ValueError: no. Run a function that "
            "handles it, or stop the replicas and skip it: `tailrace group reset-offsets billing --topic "
            "orders:1 --to-offset 8 --execute`.",
        ]
        assert await run(sc, capsys, "pause", "bill", status=1) == "tailrace trigger pause: there is no trigger bill\n"


async def test_the_status_of_the_cluster_names_triggers_with_trouble(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with public_sc(RecordedReplicas()) as sc:
        await deploy(sc, tmp_path)
        for number in (1, 2, 3):
            stopped = ShardReport(shard=number, state=ShardState.STOPPED if number == 3 else ShardState.READING)
            await report(sc, f"replica{number}", stopped)
        capsys.readouterr()
        words = ["status", "--sc", "127.0.0.1:9003", "--output", "json"]
        assert await status_command.COMMANDS["status"].execute(parse(words), sc.network) == 1
        document = json.loads(capsys.readouterr().out)
        assert document["triggers"] == [{"name": "bill", "status": "Running", "replicas": 3, "ready": 3}]
        assert [each["text"] for each in document["findings"] if each["subject"] == "trigger bill"] == [
            "The trigger bill has stopped at an event in shard 3."
        ]


async def test_what_is_described_can_be_applied_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "bill.yaml")
    async with public_sc(RecordedReplicas()) as sc:
        await deploy(sc, tmp_path)
        await report(sc, "replica1", ShardReport(shard=0))
        described = await run(sc, capsys, "describe", "bill", "--output", "yaml")
        write(file, described)
        await run(sc, capsys, "redeploy", "bill")
        for expected in ("trigger bill unchanged\n", "trigger bill created\n"):
            capsys.readouterr()
            assert await tailrace(sc.network, "apply", "--file", file) == 0
            assert capsys.readouterr().out == expected
            await run(sc, capsys, "delete", "bill")
        write(file, described.replace("access_key: null", "access_key: '********'"))
        assert await tailrace(sc.network, "apply", "--file", file) == 2
        assert "stands for a key that commands do not show" in capsys.readouterr().err
