"""One or two SCs and three SPUs, each of them a process that can be harmed and restored on its own.

With two SCs on one etcd, one leads and the other stands by, so that an SC may never become ready. A process that is not
harmed must stay alive: a process that ends by itself is a failure, and so is a clean stop that is not clean. The links
between SPUs, and from SPUs to SCs, can be harmed as well.
"""

import gc
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from chaos.links import HEALTHY_LINK, Links, LinkState
from chaos.plan import LINK_FAULTS, PROCESS_FAULTS, Fault, Harm
from cluster import Server, run_to_end, tailrace
from free_ports import free_port
from spu_cluster import SC_READY, SPU_READY, cli, wait_until_online
from waiting import wait_until

SPUS = (1, 2, 3)
CARRIAGES = {
    Harm.SEVER: LinkState(is_open=False),
    Harm.SILENCE: LinkState(silent=(True, True)),
    Harm.SILENCE_ONE: LinkState(silent=(True, False)),
    Harm.SLOW: LinkState(delay_seconds=0.05),
}
SIGNS_OF_A_BUG = re.compile(r"Traceback|AssertionError|request_failed|\"level\": ?\"critical\"|\bcritical\b")


@contextmanager
def harmed_cluster(
    directory: Path, scs: int = 1, store: str = "sqlite", settings: Mapping[str, str] | None = None
) -> Iterator["HarmedCluster"]:
    """Yields a running cluster, and kills it at the end."""
    cluster = HarmedCluster(directory, scs, store, settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()
        # close sockets that kafka-python leaves open if a server stops while it connects, before they disturb other
        # tests
        gc.collect()


class HarmedCluster:
    ids = SPUS

    def __init__(self, directory: Path, scs: int, store: str, settings: Mapping[str, str] | None = None) -> None:
        """Prepares the cluster; `settings` are Kafka's broker configs."""
        self._directory = directory
        self._settings = [f"--set={name}={value}" for name, value in (settings or {}).items()]
        self._store = store
        self._public = {f"sc-{number}": f"127.0.0.1:{free_port()}" for number in range(1, scs + 1)}
        self._clients = {f"spu-{spu}": f"127.0.0.1:{free_port()}" for spu in SPUS}
        self._servers = {name: Server(directory, name, SC_READY) for name in self._public}
        self._servers |= {name: Server(directory, name, SPU_READY) for name in self._clients}
        self.links = Links(SPUS, lambda spu: self._servers[f"spu-{spu}"].pid, scs)
        self._sc_nodes = dict(zip(self._public, self.links.scs, strict=True))
        self.complaints: list[str] = []

    @property
    def scs(self) -> tuple[str, ...]:
        return tuple(self._public)

    @property
    def targets(self) -> Mapping[str, Sequence[Harm]]:
        """Returns the processes, and the faults that they may suffer."""
        return dict.fromkeys(self._servers, PROCESS_FAULTS)

    @property
    def link_targets(self) -> Mapping[str, Sequence[Harm]]:
        return {f"link-{one}-{other}": LINK_FAULTS for one, other in self.links.pairs}

    @property
    def isolation_targets(self) -> Mapping[str, Sequence[Harm]]:
        """Returns faults after which clients and the SC reach an SPU, but no other SPU does."""
        return {f"isolation-{spu}": LINK_FAULTS for spu in SPUS}

    @property
    def full_isolation_targets(self) -> Mapping[str, Sequence[Harm]]:
        """Returns faults after which clients reach an SPU, and no other server does."""
        return {f"full_isolation-{spu}": LINK_FAULTS for spu in SPUS}

    @property
    def sc(self) -> str:
        """The value for `--sc`."""
        return ",".join(self._public.values())

    @property
    def bootstrap(self) -> str:
        return ",".join(self._clients.values())

    @property
    def addresses(self) -> dict[str, str]:
        """Returns the addresses for clients, by the name of the process."""
        return self._public | self._clients

    # start and stop

    def start(self) -> None:
        for name in self.scs:
            self.launch(name)
        wait_until(lambda: any(self._servers[name].is_ready for name in self.scs), 30, "an SC leads")
        for spu, address in zip(SPUS, self._clients.values(), strict=True):
            endpoints = ("--public", address, "--private", self.links.advertised[spu])
            status, said = cli(self.sc, "spu", "register", "--id", str(spu), *endpoints)
            assert status == 0, said
        for name in self._clients:
            self.launch(name)
        wait_until_online(self.sc, SPUS)

    def launch(self, name: str) -> None:
        self._servers[name].launch(self._command(name))

    def stop(self) -> None:
        """Stops the SPUs before the SCs, so that they can give their leases back."""
        for name in reversed(self._servers):
            self._stop(name)

    def kill(self) -> None:
        """Kills all processes, whatever their state."""
        for server in self._servers.values():
            server.kill()
        self.links.close()

    def kill_scs(self) -> None:
        for name in self.scs:
            self._servers[name].kill()

    def start_scs(self) -> None:
        for name in self.scs:
            self.launch(name)

    # faults

    def carry_out(self, faults: Iterable[Fault]) -> None:
        start = time.monotonic()
        for at_seconds, is_back, fault in _steps(faults):
            time.sleep(max(0.0, start + at_seconds - time.monotonic()))
            if is_back:
                self._bring_back(fault)
            else:
                self._harm(fault)

    @property
    def spu_targets(self) -> Mapping[str, Sequence[Harm]]:
        return dict.fromkeys(self._clients, PROCESS_FAULTS)

    def _harm(self, fault: Fault) -> None:
        if fault.harm in CARRIAGES:
            self._set_links(fault.target, CARRIAGES[fault.harm])
            return
        server = self._servers[fault.target]
        if not server.is_running:
            self.complaints.append(f"{fault.target} ended by itself before {fault}:\n{server.last_output()}")
        elif fault.harm is Harm.KILL:
            server.kill()
        else:
            server.signal(signal.SIGTERM if fault.harm is Harm.STOP else signal.SIGSTOP)

    def _bring_back(self, fault: Fault) -> None:
        if fault.harm in CARRIAGES:
            self._set_links(fault.target, HEALTHY_LINK)
            return
        if fault.harm is Harm.FREEZE:
            self._servers[fault.target].signal(signal.SIGCONT)
            return
        if fault.harm is Harm.STOP:
            # A second signal would kill a process that is about to end, so wait only.
            self._note_end(fault.target, self._servers[fault.target].wait())
        self.launch(fault.target)

    def _set_links(self, target: str, state: LinkState) -> None:
        kind, *spus = target.split("-")
        if kind == "isolation":
            self.links.isolate(int(spus[0]), state)
        elif kind == "full_isolation":
            self.links.isolate_from_all(int(spus[0]), state)
        else:
            self.links.set(int(spus[0]), int(spus[1]), state)

    def _stop(self, name: str) -> None:
        self._note_end(name, self._servers[name].stop())

    def _note_end(self, name: str, status: int) -> None:
        server = self._servers[name]
        # A process that has not installed its signal handlers yet is ended by the signal.
        if status != 0 and (server.is_ready or status != -signal.SIGTERM):
            self.complaints.append(f"{name} was stopped, and ended with status {status}:\n{server.last_output()}")

    # checks at the end

    def wait_until_well(self) -> None:
        """Waits until all processes run and all SPUs are online."""
        for name, server in self._servers.items():
            assert server.is_running, f"{name} ended by itself:\n{server.last_output()}"
        wait_until(lambda: any(self._servers[name].is_ready for name in self.scs), 30, "an SC leads")
        wait_until(lambda: cli(self.sc, "spu", "list")[0] == 0, 30, "the SC responds")
        for name in self._clients:
            self._servers[name].wait_until_ready()
        wait_until_online(self.sc, SPUS)

    def bug_reports(self) -> list[str]:
        return [
            f"{name}: {line}"
            for name, server in self._servers.items()
            for line in server.errors().splitlines()
            if SIGNS_OF_A_BUG.search(line)
        ]

    def damage(self) -> list[str]:
        """Returns the output of `tailrace log verify` for the directories of SPUs that were stopped."""
        found = []
        for name in self._clients:
            status, said = run_to_end(tailrace("log", "verify", str(self._directory / name)))
            if status != 0:
                found.append(f"{name}: {said}")
        return found

    def leftover_processes(self) -> list[str]:
        """Returns processes that still use our directories."""
        mine = str(self._directory)
        found = []
        for process in psutil.process_iter():
            try:
                words = process.cmdline()
            except psutil.Error:
                continue
            if process.pid != os.getpid() and any(word.startswith(mine) for word in words) and "serve" in words:
                found.append(" ".join(words))
        return found

    def replica_directory(self, node: int, topic: str, partition: int) -> Path:
        (found,) = self._directory.glob(f"spu-{node}/topics/{topic}/*/{partition}")
        return found

    def _command(self, name: str) -> list[str]:
        common = ("--data", str(self._directory / name), "--metrics", "off", "--log-format", "json")
        if name in self._public:
            ports = ("--public", self._public[name], "--private", self.links.private[self._sc_nodes[name]])
            return tailrace("serve", "sc", "--store", self._store, *ports, *common)
        number = name.removeprefix("spu-")
        private = f"{self.links.private[int(number)]}={self.links.advertised[int(number)]}"
        ports = ("--public", self._clients[name], "--private", private)
        scs = ",".join(self.links.advertised[sc] for sc in self.links.scs)
        return tailrace("serve", "spu", "--id", number, "--sc", scs, *ports, *common, *self._settings)


def _steps(faults: Iterable[Fault]) -> Iterator[tuple[float, bool, Fault]]:
    """Returns the start and the end of each fault, in order of time."""
    steps = []
    for fault in faults:
        steps += [(fault.at_seconds, False, fault), (fault.at_seconds + fault.away_seconds, True, fault)]
    return iter(sorted(steps, key=lambda step: step[:2]))
