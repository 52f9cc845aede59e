"""Starts clusters of several SPUs, as separate processes or with `tailrace up --spus N`.

The tests use them only from outside: through ready lines, the command line, and the Kafka protocol.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.request import urlopen

import psutil
from chaos.links import SC, Links
from cluster import FREE_PORTS, READY_LINE, Server, run_to_end, tailrace
from free_ports import free_port
from waiting import wait_until

SC_READY = re.compile(r"^ready sc public=(\S+) private=(\S+) in \d+ ms$", re.MULTILINE)
SPU_READY = re.compile(r"^ready spu=\d+ bootstrap=(\S+) in \d+ ms$", re.MULTILINE)
ANY_PORT = "127.0.0.1:0"
PATIENCE = ("--set=broker.session.timeout.ms=10000",)
"""Options of an SC for a busy machine: an SPU that is halted for a while keeps its lease.

Without them, an election that the test does not expect could happen. The SC still notices at once if an SPU is killed.
"""


class SpuCluster(Protocol):
    """Several SPUs with the ids 1, 2, 3, …"""

    sc: str
    """The SC's public address."""
    ids: tuple[int, ...]

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def spu_pid(self, spu: int) -> int: ...
    def kill_spu(self, spu: int) -> None:
        """Kills the SPU with SIGKILL, and returns when it has been started again."""


def cli(sc: str, *words: str) -> tuple[int, str]:
    """Runs a command on the SC, and returns its exit status and output."""
    return run_to_end(tailrace(*words, "--sc", sc))


def objects(sc: str, kind: str, *words: str) -> list[dict[str, Any]]:
    """Returns what `tailrace KIND list` prints."""
    command = tailrace(kind, "list", *words, "--sc", sc, "--output", "json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    return shown if isinstance(shown, list) else [shown]


def resolutions(sc: str) -> dict[int, str]:
    """Returns the resolution of each SPU that the SC knows."""
    return {each["spec"]["spuId"]: each["status"]["resolution"] for each in objects(sc, "spu")}


def wait_until_online(sc: str, spus: Iterable[int], seconds: float = 30) -> None:
    wanted = set(spus)

    def are_online() -> bool:
        return wanted <= {spu for spu, resolution in resolutions(sc).items() if resolution == "Online"}

    wait_until(are_online, seconds, f"SPUs {sorted(wanted)} online")


class SeparateCluster:
    """One SC and some SPUs, each in its own directory. They keep their addresses after the first start.

    With `has_links`, SPUs reach each other and the SC through a proxy that a test can tell to drop data. With
    `has_racks`, each SPU is in its own rack. With `has_metrics`, SPUs serve metrics. `settings` are Kafka's broker
    configs, and `sc_options` are options of the SC.
    """

    def __init__(
        self,
        directory: Path,
        spus: int = 3,
        store: str = "sqlite",
        has_links: bool = False,
        has_racks: bool = False,
        first_id: int = 1,
        settings: Mapping[str, str] | None = None,
        sc_options: Sequence[str] = (),
        has_metrics: bool = False,
    ) -> None:
        self.sc = ANY_PORT
        self.ids = tuple(range(first_id, first_id + spus))
        self._sc_options = sc_options
        self.controller = Server(directory, "sc", SC_READY)
        self.links = Links(self.ids, self.spu_pid) if has_links else None
        self.sc_private = self.links.private[SC] if self.links else ANY_PORT
        self._directory = directory
        self._has_racks = has_racks
        self._store = store
        self._settings = [f"--set={name}={value}" for name, value in (settings or {}).items()]
        self._spus: dict[int, Server] = {}
        self._addresses: dict[int, str] = {}
        self._metrics: dict[int, str] | None = {} if has_metrics else None

    @property
    def bootstrap(self) -> str:
        return ",".join(self._addresses[spu] for spu in self.ids)

    def start(self) -> None:
        is_new = not self._spus
        self.start_sc()
        for spu in self.ids if is_new else ():
            self.register(spu)
        for spu in self.ids:
            self.launch_spu(spu)
        for spu in self.ids:
            self.wait_for_spu(spu)
        wait_until_online(self.sc, self.ids)

    def start_sc(self) -> None:
        ready = self.controller.start(self.sc_command())
        self.sc, self.sc_private = ready[1], ready[2]

    def sc_command(self) -> list[str]:
        return tailrace(
            *("serve", "sc", "--data", str(self._directory / "sc"), "--store", self._store),
            *("--public", self.sc, "--private", self.sc_private, "--metrics", "off", *self._sc_options),
        )

    def register(self, spu: int, public: str = ANY_PORT) -> None:
        private = self.links.advertised[spu] if self.links else ANY_PORT
        endpoints = ("--public", public, "--private", private)
        rack = ("--rack", f"rack-{spu}") if self._has_racks else ()
        status, said = cli(self.sc, "spu", "register", "--id", str(spu), *endpoints, *rack)
        assert status == 0, said

    def spu_command(self, spu: int, directory: str | None = None) -> list[str]:
        private = f"{self.links.private[spu]}={self.links.advertised[spu]}" if self.links else ANY_PORT
        return tailrace(
            *("serve", "spu", "--id", str(spu), "--data", str(self._directory / (directory or f"spu-{spu}"))),
            *("--sc", self.links.advertised[SC] if self.links else self.sc_private),
            *("--public", self._addresses.get(spu, ANY_PORT), "--private", private),
            *("--metrics", self._metrics_address(spu), *self._settings),
        )

    def _metrics_address(self, spu: int) -> str:
        return "off" if self._metrics is None else self._metrics.setdefault(spu, f"127.0.0.1:{free_port()}")

    def metric(self, spu: int, name: str) -> float:
        """Returns the value of a counter of that SPU that has a single series."""
        with urlopen(f"http://{self._metrics_address(spu)}/metrics", timeout=20) as answer:
            found = re.search(rf"^{name}_total (\S+)$", answer.read().decode(), re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def launch_spu(self, spu: int) -> Server:
        server = self._spus.setdefault(spu, Server(self._directory, f"spu-{spu}", SPU_READY))
        server.launch(self.spu_command(spu))
        return server

    def wait_for_spu(self, spu: int) -> None:
        self._addresses[spu] = self._spus[spu].wait_until_ready()[1]

    def start_spu(self, spu: int, public: str = ANY_PORT) -> None:
        self._addresses.setdefault(spu, public)
        self.launch_spu(spu)
        self.wait_for_spu(spu)

    def stop_spu(self, spu: int) -> int:
        return self._spus[spu].stop()

    def spu_pid(self, spu: int) -> int:
        return self._spus[spu].pid

    def spu_errors(self, spu: int) -> str:
        return self._spus[spu].errors()

    def kill_spu(self, spu: int) -> None:
        """Kills the SPU, and starts it again."""
        self._spus[spu].kill()
        self.start_spu(spu)

    def stop(self) -> None:
        statuses = [server.stop() for server in (*self._spus.values(), self.controller)]
        assert not any(statuses), statuses

    def kill(self) -> None:
        for server in (*self._spus.values(), self.controller):
            server.kill()
        if self.links:
            self.links.close()

    # the interface NodeCluster

    def node_pid(self, node: int) -> int:
        return self.spu_pid(node)

    def is_running(self, node: int) -> bool:
        return self._spus[node].is_running

    def kill_node(self, node: int) -> None:
        self._spus[node].kill()

    def stop_node(self, node: int) -> int:
        return self.stop_spu(node)

    def start_node(self, node: int) -> None:
        self.start_spu(node)

    def kill_controller(self) -> None:
        self.controller.kill()

    def start_controller(self) -> None:
        self.start_sc()

    def replica_directory(self, node: int, topic: str, partition: int) -> Path:
        (found,) = self._directory.glob(f"spu-{node}/topics/{topic}/*/{partition}")
        return found

    def log_bytes(self, node: int, topic: str, partition: int) -> int:
        """Returns the size of a replica's segments, even while its SPU deletes some of them."""
        size = 0
        for segment in self.replica_directory(node, topic, partition).glob("*.log"):
            with suppress(FileNotFoundError):
                size += segment.stat().st_size
        return size


class ManagedCluster:
    """An SC and SPUs that `tailrace up --spus N` starts."""

    def __init__(self, directory: Path, spus: int = 3, options: Sequence[str] = ()) -> None:
        self.sc = f"127.0.0.1:{free_port()}"
        self.ids = tuple(range(1, spus + 1))
        self.up = Server(directory, "up", READY_LINE)
        self._data = directory / "data"
        self._options = options
        self._bootstrap = ""

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    def command(self, spus: int | None = None) -> list[str]:
        free_ports = ("--sc", self.sc, *FREE_PORTS[2:], "--public", ANY_PORT, "--metrics", "off")
        where = ("--data", str(self._data), *free_ports)
        return tailrace("up", "--spus", str(spus or len(self.ids)), *where, *self._options)

    def start(self) -> None:
        self._bootstrap = self.up.start(self.command())[1]

    def spu_pids(self) -> dict[int, int]:
        """Returns the pids of the SPUs that are child processes, by SPU id."""
        pids = {}
        for child in psutil.Process(self.up.pid).children():
            try:
                words = child.cmdline()
            except psutil.Error:
                continue  # it has just ended
            if "--id" in words:
                pids[int(words[words.index("--id") + 1])] = child.pid
        return pids

    def spu_pid(self, spu: int) -> int:
        return self.spu_pids()[spu]

    def kill_spu(self, spu: int) -> None:
        before = self.spu_pid(spu)
        os.kill(before, signal.SIGKILL)
        try:
            wait_until(lambda: self.spu_pids().get(spu, before) != before, 30, f"SPU {spu} is started again")
            wait_until_online(self.sc, [spu])
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.up.last_output()}") from None

    def stop(self) -> None:
        status = self.up.stop()
        assert status == 0, f"`tailrace up` ended with status {status}"

    def kill(self) -> None:
        self.up.kill()
