from pathlib import Path

import pytest
import trio
from deployed_triggers import deploy
from public_sc import public_sc, tailrace
from running_workflow import RecordedReplicas
from trio.testing import MockClock

from tailrace.controller.triggers.bounded_log import LAST, LogPart


class PrintingReplicas(RecordedReplicas):
    """Replicas that have printed some lines."""

    def __init__(self, **lines: list[str]) -> None:
        super().__init__()
        self.lines = lines

    def read_log(self, trigger: str, replica: str, after: int, bytes_max: int) -> LogPart | None:
        if replica not in self.lines:
            return None
        new = self.lines[replica][0 if after == LAST else after :]
        return LogPart("".join(f"{line}\n" for line in new), len(self.lines[replica]))


async def test_the_last_lines_of_each_replica_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replicas = PrintingReplicas(replica1=["a", "b", "c\x1b[31m"], replica2=["d"])
    async with public_sc(replicas) as sc:
        await deploy(sc, tmp_path)
        capsys.readouterr()
        assert await tailrace(sc.network, "trigger", "logs", "bill", "--lines", "2") == 0
        assert capsys.readouterr().out == "replica1: b\nreplica1: c\\x1b[31m\nreplica2: d\n"
        assert await tailrace(sc.network, "trigger", "logs", "bill", "--replica", "replica2") == 0
        assert capsys.readouterr().out == "d\n"
        assert await tailrace(sc.network, "trigger", "logs", "bill", "--replica", "replica3") == 1
        assert capsys.readouterr().err == (
            "tailrace trigger logs: there is no log of replica3 of bill: the SC has not started this replica\n"
        )
        assert await tailrace(sc.network, "trigger", "logs", "bill", "--output", "json") == 2


async def test_later_lines_are_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], autojump_clock: MockClock
) -> None:
    replicas = PrintingReplicas(replica1=["a", "b"])
    async with public_sc(replicas) as sc, trio.open_nursery() as nursery:
        await deploy(sc, tmp_path, "--replicas", "1")
        capsys.readouterr()
        nursery.start_soon(tailrace, sc.network, "trigger", "logs", "bill", "--follow", "--lines", "0")
        await trio.sleep(1)
        replicas.lines["replica1"] += ["c", "d"]
        await trio.sleep(1)
        assert capsys.readouterr().out == "c\nd\n"
        nursery.cancel_scope.cancel()
