"""Replicas in real child processes, which run a program in place of `tailrace trigger run`."""

import os
import sys
import textwrap
from pathlib import Path

import pytest
import trio

from tailrace.cli.serving.replica_launcher import ChildReplicaLauncher, replica_command
from tailrace.controller.state.actions import KeepReplica
from tailrace.controller.triggers.bounded_log import LAST
from tailrace.runtime.files import RealFiles
from tailrace.runtime.network import Address

SC = Address("127.0.0.1", 9003)


def python(directory: Path, program: str) -> str:
    """A Python interpreter that runs the program whatever its arguments are."""
    path = directory / "python"
    script = directory / "program.py"
    script.write_text(textwrap.dedent(program))
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    path.chmod(0o755)
    return str(path)


def launcher(directory: Path) -> ChildReplicaLauncher:
    return ChildReplicaLauncher(str(directory / "data"), SC, os.environ, RealFiles())


def test_the_command_names_the_trigger_the_replica_and_the_sc() -> None:
    command = replica_command(KeepReplica("bill", "replica2", 1, None), SC)
    assert command[0] == sys.executable
    assert command[3:8] == ["tailrace", "trigger", "run", "--deployed", "bill"]
    with_metrics = replica_command(KeepReplica("bill", "replica2", 1, None, Address("127.0.0.1", 9101)), SC)
    assert with_metrics == [*command, "--metrics", "127.0.0.1:9101"]
    assert command[8:] == ["--replica", "replica2", "--sc", "127.0.0.1:9003", "--until-input-ends"]


async def test_the_output_of_a_replica_goes_to_its_log(tmp_path: Path) -> None:
    program = """
        import sys
        print("arguments", *sys.argv[1:])
        print("an error", file=sys.stderr)
        raise SystemExit(3)
    """
    launched = launcher(tmp_path)
    assert launched.read_log("bill", "replica1", LAST, 1000) is None
    wanted = KeepReplica("bill", "replica1", 1, python(tmp_path, program))
    with trio.fail_after(20):
        running = await launched.launch(wanted)
        assert await running.wait() == "status 3"
    part = launched.read_log("bill", "replica1", LAST, 1000)
    assert part is not None
    assert sorted(part.text.splitlines())[0] == "an error"
    assert "trigger run --deployed bill --replica replica1" in part.text
    assert (tmp_path / "data" / "triggers" / "bill" / "replica1.log").read_text() == part.text
    assert launched.last_line("bill", "replica1") in part.text
    await launched.forget("bill")
    assert not (tmp_path / "data" / "triggers" / "bill").exists()


async def test_a_disk_that_takes_no_log_stops_only_the_replica(tmp_path: Path) -> None:
    launched = launcher(tmp_path)
    (tmp_path / "data").write_text("no directory")
    with pytest.raises(OSError, match=r"its log .*/triggers/bill/replica1\.log cannot be opened: Not a directory"):
        await launched.launch(KeepReplica("bill", "replica1", 1, None))
    assert launched.last_line("bill", "replica1") == ""


async def test_what_a_replica_prints_while_it_stops_is_kept_too(tmp_path: Path) -> None:
    program = """
        import signal, sys
        signal.signal(signal.SIGTERM, lambda *_: (print("committed" * 20_000, flush=True), sys.exit(0)))
        open(sys.argv[0] + ".ready", "w").close()
        signal.pause()
    """
    ready = tmp_path / "program.py.ready"
    os.mkfifo(ready)
    launched = launcher(tmp_path)
    with trio.fail_after(20):
        running = await launched.launch(KeepReplica("bill", "replica1", 1, python(tmp_path, program)))
        await trio.to_thread.run_sync(ready.read_bytes, abandon_on_cancel=True)
        await running.stop()
    part = launched.read_log("bill", "replica1", LAST, 300_000)
    assert part is not None
    assert part.text == "committed" * 20_000 + "\n"


async def test_an_interpreter_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        OSError, match=r"^/nowhere/python cannot be started: .*; deploy the trigger again with --python$"
    ):
        await launcher(tmp_path).launch(KeepReplica("bill", "replica1", 1, "/nowhere/python"))
