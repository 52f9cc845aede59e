"""One or two SCs and three SPUs, each a process that can be harmed and brought back by itself.

With two SCs on one etcd, one leads and the other stands by, so an SC need not become ready. A process that is not
harmed has to live: one that ended by itself is a failure, and so is a clean stop that is not clean. The links
between the SPUs, and to the SCs, can be harmed as well.
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
from chaos.links import WELL, Carriage, Links
from chaos.plan import OF_A_LINK, OF_A_PROCESS, Fault, Harm
from cluster import Server, run_to_end, tailrace
from free_ports import free_port
from spu_cluster import SC_READY, SPU_READY, cli, wait_until_online
from waiting import wait_until

SPUS = (1, 2, 3)
CARRIAGES = {
    Harm.SEVER: Carriage(is_open=False),
    Harm.SILENCE: Carriage(silent=(True, True)),
    Harm.SILENCE_ONE: Carriage(silent=(True, False)),
    Harm.SLOW: Carriage(delay_seconds=0.05),
}
SIGNS_OF_A_BUG = re.compile(r"Traceback|AssertionError|request_failed|\"level\": ?\"critical\"|\bcritical\b")


@contextmanager
def harmed_cluster(
    directory: Path, scs: int = 1, store: str = "sqlite", settings: Mapping[str, str] | None = None
) -> Iterator["HarmedCluster"]:
    """Started, and killed at the end."""
    cluster = HarmedCluster(directory, scs, store, settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()
        gc.collect()  # sockets that kafka-python leaves open when a server goes while it connects, before others trip


class HarmedCluster:
    ids = SPUS

    def __init__(self, directory: Path, scs: int, store: str, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are Kafka's, for brokers."""
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
        """The processes, and what is done to them."""
        return dict.fromkeys(self._servers, OF_A_PROCESS)

    @property
    def link_targets(self) -> Mapping[str, Sequence[Harm]]:
        return {f"link-{one}-{other}": OF_A_LINK for one, other in self.links.pairs}

    @property
    def isolation_targets(self) -> Mapping[str, Sequence[Harm]]:
        """An SPU that clients and the SC reach, and no other SPU."""
        return {f"isolation-{spu}": OF_A_LINK for spu in SPUS}

    @property
    def cut_off_targets(self) -> Mapping[str, Sequence[Harm]]:
        """An SPU that clients reach, and nobody else."""
        return {f"cut_off-{spu}": OF_A_LINK for spu in SPUS}

    @property
    def sc(self) -> str:
        """As `--sc` takes it."""
        return ",".join(self._public.values())

    @property
    def bootstrap(self) -> str:
        return ",".join(self._clients.values())

    @property
    def addresses(self) -> dict[str, str]:
        """Where clients may ask, by the name of the process."""
        return self._public | self._clients

    # life

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
        """SPUs first, so that they can give their leases back."""
        for name in reversed(self._servers):
            self._stop(name)

    def kill(self) -> None:
        """Whatever state they are in."""
        for server in self._servers.values():
            server.kill()
        self.links.close()

    def kill_scs(self) -> None:
        for name in self.scs:
            self._servers[name].kill()

    def start_scs(self) -> None:
        for name in self.scs:
            self.launch(name)

    # harm

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
        return dict.fromkeys(self._clients, OF_A_PROCESS)

    def _harm(self, fault: Fault) -> None:
        if fault.harm in CARRIAGES:
            self._carry(fault.target, CARRIAGES[fault.harm])
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
            self._carry(fault.target, WELL)
            return
        if fault.harm is Harm.FREEZE:
            self._servers[fault.target].signal(signal.SIGCONT)
            return
        if fault.harm is Harm.STOP:
            # Not asked again: a signal kills a process that is about to end.
            self._note_end(fault.target, self._servers[fault.target].wait())
        self.launch(fault.target)

    def _carry(self, target: str, carriage: Carriage) -> None:
        kind, *spus = target.split("-")
        if kind == "isolation":
            self.links.isolate(int(spus[0]), carriage)
        elif kind == "cut_off":
            self.links.cut_off(int(spus[0]), carriage)
        else:
            self.links.set(int(spus[0]), int(spus[1]), carriage)

    def _stop(self, name: str) -> None:
        self._note_end(name, self._servers[name].stop())

    def _note_end(self, name: str, status: int) -> None:
        server = self._servers[name]
        # One that has not come far enough to handle signals dies of them.
        if status != 0 and (server.is_ready or status != -signal.SIGTERM):
            self.complaints.append(f"{name} was stopped, and ended with status {status}:\n{server.last_output()}")

    # what is left

    def wait_until_well(self) -> None:
        """All run, and all SPUs are online."""
        for name, server in self._servers.items():
            assert server.is_running, f"{name} ended by itself:\n{server.last_output()}"
        wait_until(lambda: any(self._servers[name].is_ready for name in self.scs), 30, "an SC leads")
        wait_until(lambda: cli(self.sc, "spu", "list")[0] == 0, 30, "the SC answers")
        for name in self._clients:
            self._servers[name].wait_until_ready()
        wait_until_online(self.sc, SPUS)

    def signs_of_bugs(self) -> list[str]:
        return [
            f"{name}: {line}"
            for name, server in self._servers.items()
            for line in server.errors().splitlines()
            if SIGNS_OF_A_BUG.search(line)
        ]

    def damage(self) -> list[str]:
        """What `tailrace log verify` finds in the directories of SPUs that were stopped."""
        found = []
        for name in self._clients:
            status, said = run_to_end(tailrace("log", "verify", str(self._directory / name)))
            if status != 0:
                found.append(f"{name}: {said}")
        return found

    def left_behind(self) -> list[str]:
        """Processes that still work in our directories."""
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
    """Each harm and each return, in the order of their times."""
    steps = []
    for fault in faults:
        steps += [(fault.at_seconds, False, fault), (fault.at_seconds + fault.away_seconds, True, fault)]
    return iter(sorted(steps, key=lambda step: step[:2]))
