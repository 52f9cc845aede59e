"""Launches replicas of deployed triggers as child processes of `tailrace up`, and keeps their output in files."""

import sys
from collections.abc import Mapping

import trio

from tailrace.controller.spus.supervised_process import RunningProcess
from tailrace.controller.state.actions import KeepReplica
from tailrace.controller.triggers.bounded_log import BoundedLog, LogPart
from tailrace.runtime.child_process import ChildProcess, start_child, status_text
from tailrace.runtime.files import Files
from tailrace.runtime.network import Address

STOP_SECONDS_MAX = 60
"""How long a replica may take to stop. Its own limit for running events is usually shorter."""
LAST_OUTPUT_SECONDS_MAX = 1.0
"""How long the output of an ended replica is still read, if another process has inherited it."""


def replica_command(wanted: KeepReplica, controller: Address) -> list[str]:
    """Returns the command line of a replica, which stops when this process ends."""
    command = [
        wanted.python or sys.executable,
        "-P",
        "-m",
        "tailrace",
        "trigger",
        "run",
        "--deployed",
        wanted.trigger,
        "--replica",
        wanted.replica,
        "--sc",
        str(controller),
        "--until-input-ends",
    ]
    return command if wanted.metrics is None else [*command, "--metrics", str(wanted.metrics)]


class ChildReplicaLauncher:
    """Starts replicas as child processes. Their output goes to `<data>/triggers/<trigger>/<replica>.log`."""

    def __init__(self, data_directory: str, controller: Address, environment: Mapping[str, str], files: Files) -> None:
        """`controller` is the public address of the SC."""
        self._directory = f"{data_directory}/triggers"
        self._controller = controller
        self._environment = environment
        self._files = files
        self._logs: dict[tuple[str, str], BoundedLog] = {}

    async def launch(self, wanted: KeepReplica) -> RunningProcess:
        """Starts a replica. Raises OSError if it could not be started."""
        try:
            log = self._log(wanted.trigger, wanted.replica)
        except OSError as error:
            path = self._path(wanted.trigger, wanted.replica)
            raise OSError(f"its log {path} cannot be opened: {error.strerror}") from error
        try:
            child = await start_child(replica_command(wanted, self._controller), self._environment, joins_errors=True)
        except OSError as error:
            raise OSError(
                f"{wanted.python or sys.executable} cannot be started: {error.strerror}; deploy the trigger again with "
                "--python"
            ) from error
        return _ReplicaChild(child, log)

    def read_log(self, trigger: str, replica: str, after: int, bytes_max: int) -> LogPart | None:
        """Reads a part of the output of a replica, also of one that ran in an earlier process. Raises OSError."""
        if not self._files.exists(self._path(trigger, replica)):
            return None
        return self._log(trigger, replica).read(after, bytes_max)

    async def forget(self, trigger: str) -> None:
        """Removes the logs of a deleted trigger."""
        for key in [key for key in self._logs if key[0] == trigger]:
            self._logs.pop(key).close()
        await self._files.discard_tree(f"{self._directory}/{trigger}")

    def last_line(self, trigger: str, replica: str) -> str:
        try:
            return self._log(trigger, replica).last_line()
        except OSError:  # the disk does not allow it, and the replica is started again nevertheless
            return ""

    def _path(self, trigger: str, replica: str) -> str:
        return f"{self._directory}/{trigger}/{replica}.log"

    def _log(self, trigger: str, replica: str) -> BoundedLog:
        key = (trigger, replica)
        if key not in self._logs:
            self._files.make_directories(f"{self._directory}/{trigger}")
            self._logs[key] = BoundedLog(self._files, self._path(trigger, replica))
        return self._logs[key]


class _ReplicaChild:
    """A replica in a child process."""

    def __init__(self, process: ChildProcess, log: BoundedLog) -> None:
        self._process = process
        self._log = log
        self._has_ended = False

    async def wait(self) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_output)
            status = await self._process.wait()
            nursery.cancel_scope.deadline = trio.current_time() + LAST_OUTPUT_SECONDS_MAX
        self._has_ended = True
        with trio.CancelScope(shield=True):
            await self._process.close()
        return status_text(status)

    async def _keep_output(self) -> None:
        while data := await self._process.read_some():
            try:
                self._log.append(data)
            except OSError:
                continue  # The disk is full, and the replica need not care.

    async def stop(self) -> None:
        if self._has_ended:
            return
        self._process.ask_to_stop()
        with trio.move_on_after(STOP_SECONDS_MAX) as limit:
            await self.wait()
        if limit.cancelled_caught:
            self._process.kill()
            await self.wait()

    def end(self) -> None:
        if not self._has_ended:
            self._process.kill()
