"""Runs docker-compose.yml, alone or closed by docker-compose.secure.yml, as `docker compose` would.

Namespaces take the place of containers. Commands, environment, names, ports, volumes, order of start, health checks and
restart policies are the same. Only the images are missing: the programs are those of this machine.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from containers.compose_file import HealthCheck, Service, read_services
from containers.namespaces import Machine, Namespace, programs
from waiting import wait_until

CLIENT = "client"
"""An empty container on the same network, for a client."""
START_SECONDS_MAX = 30
SUCCESS_SECONDS_MAX = 90
RESTART_SECONDS = 0.1
"""The pause before the first restart, which doubles with each further restart, as in Docker."""
CHECK_SECONDS = 0.2
_FORWARDER = Path(__file__).with_name("forwarder.py")


class Container:
    """One service, and a thread that restarts its process according to its restart policy."""

    def __init__(self, service: Service, namespace: Namespace, log: Path) -> None:
        self.service = service
        self.namespace = namespace
        self.starts = 0
        self.environment = service.environment | programs()
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def status(self) -> int | None:
        """The exit status, or None while the process runs."""
        assert self._process is not None, f"{self.service.name} has not been started"
        return self._process.poll()

    def start(self) -> None:
        self._stopping.clear()
        self.starts = 0
        self._thread = threading.Thread(target=self._run, name=self.service.name)
        self._thread.start()
        self.wait_for_start(1)

    def wait_for_start(self, number: int) -> None:
        wait_until(lambda: self.starts >= number, START_SECONDS_MAX, f"start {number} of {self.service.name}")

    def wait_for_health(self) -> None:
        health = self.service.health
        assert health is not None, f"{self.service.name} has no health check"
        wait_until(lambda: self._is_healthy(health), health.start_seconds_max, f"health of {self.words()}")

    def wait_for_success(self) -> None:
        wait_until(lambda: self.status == 0, SUCCESS_SECONDS_MAX, f"success of {self.words()}")

    def kill(self) -> None:
        """Kills the process with SIGKILL, and returns once its policy has started it again."""
        starts = self.starts
        self._signal(signal.SIGKILL)
        self.wait_for_start(starts + 1)

    def stop(self) -> int:
        """Stops the service for good, and returns its exit status."""
        self._stopping.set()
        self._signal(signal.SIGTERM)
        assert self._thread is not None
        self._thread.join(self.service.stop_seconds_max)
        if self._thread.is_alive():
            self.end()
            raise AssertionError(f"the service did not stop in {self.service.stop_seconds_max} s: {self.words()}")
        assert self._process is not None
        return self._process.returncode

    def end(self) -> None:
        """Ends the process, whatever its state."""
        self._stopping.set()
        self._signal(signal.SIGKILL)
        if self._thread is not None:
            self._thread.join()

    def words(self) -> str:
        last = self._log.read_text().splitlines()[-30:] if self._log.exists() else []
        return "\n".join([f"{self.service.name} ({' '.join(self.service.command)[:100]}) says:", *last])

    def _run(self) -> None:
        pause_seconds = RESTART_SECONDS
        while True:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self.namespace.inside(self.service.command),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self.environment,
                )
            self.starts += 1
            if self._stopping.is_set():  # the caller may have seen the previous process
                self._process.terminate()
            status = self._process.wait()
            again = {"no": False, "on-failure": status != 0, "always": True, "unless-stopped": True}
            if not again[self.service.restart] or self._stopping.wait(pause_seconds):
                return
            pause_seconds *= 2

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _is_healthy(self, health: HealthCheck) -> bool:
        try:
            done = self.namespace.run(health.command, self.environment, health.timeout_seconds)
        except subprocess.TimeoutExpired:
            return False
        if done.returncode != 0:
            time.sleep(CHECK_SECONDS)
        return done.returncode == 0


class Project:
    """All services of docker-compose.yml on their own machine; the end of the `with` block ends everything that still
    runs. A password of the administrator adds docker-compose.secure.yml."""

    def __init__(self, directory: Path, password: str | None = None) -> None:
        variables = {} if password is None else {"ADMIN_PASSWORD": password}
        self._services = read_services(variables, secure=password is not None)
        self._containers: dict[str, Container] = {}
        self._volumes = directory / "volumes"
        self._ends = ExitStack()
        try:
            machine = self._ends.enter_context(Machine(directory))
            self.host = machine.host
            addresses = {name: machine.name(name) for name in (*self._services, CLIENT)}
            self.client = machine.container(CLIENT, {})
            for name, service in self._services.items():
                volumes = {target: self.volume(volume) for target, volume in service.volumes.items()}
                if service.secrets:
                    volumes["/run/secrets"] = directory / "secrets" / name
                for volume in volumes.values():
                    volume.mkdir(parents=True, exist_ok=True)
                for secret, text in service.secrets.items():
                    (volumes["/run/secrets"] / secret).write_text(text)
                container = Container(service, machine.container(name, volumes), directory / f"{name}.log")
                self._containers[name] = container
                self._ends.callback(container.end)
            self._forward(addresses)
        except BaseException:
            self._ends.close()
            raise

    def __enter__(self) -> "Project":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(self.words())
        self._ends.close()

    def __getitem__(self, service: str) -> Container:
        return self._containers[service]

    def volume(self, name: str) -> Path:
        """Returns the directory of a volume."""
        return self._volumes / name

    def up(self) -> None:
        """Does what `docker compose up --wait` does: it starts each service when its dependencies meet their
        conditions."""
        started: set[str] = set()

        def start(name: str) -> None:
            if name in started:
                return
            started.add(name)
            for other, condition in self._services[name].depends_on.items():
                start(other)
                match condition:
                    case "service_healthy":
                        self[other].wait_for_health()
                    case "service_completed_successfully":
                        self[other].wait_for_success()
                    case _:
                        assert condition == "service_started", condition
            self[name].start()

        for name in self._services:
            start(name)
        self.wait_for_health()

    def start_all_at_once(self) -> None:
        """Starts all services at once, as Docker does after a reboot.

        No service waits for another one, and services that had succeeded are not started again.
        """
        for name, service in self._services.items():
            if service.restart == "unless-stopped":
                self[name].start()

    def wait_for_health(self) -> None:
        for container in self._containers.values():
            if container.service.health is not None:
                container.wait_for_health()

    def stop(self) -> dict[str, int]:
        """Does what `docker compose stop` does, and returns exit statuses; a service stops before its dependencies."""
        return {name: self[name].stop() for name in reversed(self._services)}

    def kill_all(self) -> None:
        """Kills all processes at once, as a power failure does, although their writes survive."""
        for container in self._containers.values():
            container.end()

    def words(self) -> str:
        """Returns the last lines of all logs."""
        return "\n\n".join(container.words() for container in self._containers.values())

    def execute(self, service: str, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        """Runs a command as `docker compose exec` does."""
        container = self[service]
        return container.namespace.run(command, container.environment)

    def _forward(self, addresses: dict[str, str]) -> None:
        ports = [
            f"{port.host_address}:{port.host_port}={addresses[name]}:{port.container_port}"
            for name, service in self._services.items()
            for port in service.ports
        ]
        forwarder = subprocess.Popen(
            self.host.inside([sys.executable, str(_FORWARDER), *ports]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=programs(),
        )
        self._ends.callback(_end, forwarder)
        assert forwarder.stdout is not None
        assert forwarder.stdout.readline() == b"ready\n", "the forwarder of published ports did not start"


def _end(process: "subprocess.Popen[bytes]") -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
