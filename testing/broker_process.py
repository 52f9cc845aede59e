"""A broker as a child process, for `with` and `async with`.

The child ends with this process, even after `kill -9`: it stops at the end of its standard input, which is a pipe that
only this process holds open. The child keeps its data in a temporary directory, which it removes at its end.
"""

import os
import re
import selectors
import shlex
import site
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self, TypeVar

import tailrace

from .broker_error import BrokerError
from .broker_log import BrokerLog

if TYPE_CHECKING:
    from .client_login import ClientLogin

READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 20
_OPTIONS = [
    *("--ephemeral", "--until-input-ends", "--metrics", "off"),
    *("--public", "127.0.0.1:0", "--private", "127.0.0.1:0", "--sc", "127.0.0.1:0", "--sc-private", "127.0.0.1:0"),
]
_READY = re.compile(rb"^ready bootstrap=(\S+) sc=\S+ data=(.*) in \d+ ms")
_LINE_BYTES_MAX = 4096
_WAIT_SECONDS_MAX = 0.1

Result = TypeVar("Result")


class Broker:
    """A broker of the Kafka protocol that runs while the `with` or `async with` block does.

    It listens on free ports of 127.0.0.1, and its data lies in a temporary directory, so any number of brokers can run
    at the same time.
    """

    def __init__(self, *, spus: int = 1, settings: Mapping[str, str] | None = None, secure: bool = False) -> None:
        """Prepares a cluster of `spus` brokers. `settings` are Kafka's broker configs, such as `num.partitions`.

        A `secure` broker demands TLS and a login, and has access rules: clients need the settings of `admin`, or those
        of a user that `create_user` returns.
        """
        self._arguments = [f"--spus={spus}", *(f"--set={name}={value}" for name, value in (settings or {}).items())]
        if secure:
            self._arguments.append("--secure")
        self._is_secure = secure
        self._admin: ClientLogin | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._log: BrokerLog | None = None
        self._bootstrap: str | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients, `HOST:PORT`; with several SPUs, their addresses divided by commas."""
        if self._bootstrap is None:
            raise BrokerError("the broker does not run: use it inside its `with` block")
        return self._bootstrap

    @property
    def is_running(self) -> bool:
        """Whether the process of the broker runs."""
        return self._process is not None and self._process.poll() is None

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Creates a topic and returns its name. The topic has its leaders when this returns."""
        from .topic_creation import create_topic

        create_topic(self.bootstrap, name, partitions, replication_factor, configs or {}, self._admin)
        return name

    @property
    def admin(self) -> "ClientLogin":
        """The user of a secure broker that may do everything, with ready settings for clients."""
        if self._admin is None:
            raise BrokerError("the broker has no users: start it with `Broker(secure=True)`, inside its `with` block")
        return self._admin

    def create_user(self, name: str, password: str | None = None) -> "ClientLogin":
        """Creates a user of a secure broker, who may do nothing yet: see `allow`. A password is made if none is given.

        If the user exists, the password changes.
        """
        from .user_creation import create_user

        return create_user(self.admin, name, password)

    def allow(
        self,
        user: "ClientLogin | str",
        *operations: str,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
    ) -> None:
        """Lets a user do operations such as `read`, `write` and `create` with topics, groups and transactional ids.

        `orders-*` stands for all names that begin with `orders-`, and `*` for all names.
        """
        from .user_creation import allow

        allow(self.admin, user, operations, topic=topic, group=group, transactional_id=transactional_id)

    def log(self, begin: int = 0) -> str:
        """Returns what the broker has logged from the byte `begin` on, at most the last 256 KiB."""
        return "" if self._log is None else self._log.text(begin)

    @property
    def log_size(self) -> int:
        """How many bytes the broker has logged."""
        return 0 if self._log is None else self._log.size

    def start(self) -> None:
        """Starts the broker and returns when clients can connect. Raises BrokerError."""
        self._launch()
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops the broker and removes its data. The log stays readable."""
        self._bootstrap = self._admin = None
        process = self._process
        if process is None:
            return
        self._process = None
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()
        assert self._log is not None
        self._log.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self._launch()  # in this thread, so that a cancellation finds the process
        try:
            await _in_a_thread(self._wait_until_ready)
        except BaseException:
            self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _launch(self) -> None:
        if self._process is not None:
            raise BrokerError("the broker runs already")
        self._log = log = BrokerLog()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tailrace", "up", *_OPTIONS, *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.fileno(),
            env=_environment(),
            start_new_session=True,  # so that Ctrl-C reaches the tests, which stop the broker
        )

    def _wait_until_ready(self) -> None:
        process = self._process
        assert process is not None and process.stdout is not None
        ready = _READY.match(self._read_line(process.stdout, time.monotonic() + READY_SECONDS_MAX))
        if ready is None:
            raise BrokerError(f"the broker did not start: {self.log().strip() or 'it said nothing'}")
        self._bootstrap = ready[1].decode()
        if self._is_secure:
            from .user_creation import saved_login

            (data,) = shlex.split(ready[2].decode())
            self._admin = saved_login(Path(data) / "security", self._bootstrap)

    def _read_line(self, stream: IO[bytes], deadline: float) -> bytes:
        """Returns the next line; less than a line at the end of the stream, at the deadline, and after a stop."""
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while not line.endswith(b"\n") and len(line) < _LINE_BYTES_MAX and time.monotonic() < deadline:
                # In short waits, because no event comes from a stream that another thread has closed.
                if selector.select(_WAIT_SECONDS_MAX):
                    received = os.read(stream.fileno(), 1)
                    if not received:
                        break
                    line += received
                elif self._process is None:
                    break
        return line


def _environment() -> dict[str, str]:
    """Returns the environment of the child: without settings of Tailrace, and with this Tailrace on its path.

    Settings in the environment, such as TAILRACE_DATA, are for the brokers that a person starts in a shell.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TAILRACE_")}
    here = str(Path(tailrace.__file__).parents[1])
    if here not in site.getsitepackages():
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [here, environment.get("PYTHONPATH")]))
    return environment


async def _in_a_thread(call: Callable[[], Result]) -> Result:
    """Runs `call` in a thread of Trio, if Trio runs here, or of asyncio."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        result: Result = await trio.to_thread.run_sync(call)
        return result
    import asyncio

    return await asyncio.to_thread(call)
