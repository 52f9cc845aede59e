"""A machine inside the machine: a host and containers with a network of their own, made of Linux namespaces.

What stands for a host is a network namespace with a bridge, as a container engine makes it; a container is a network
namespace on that bridge, with a root directory that has volumes of its own and a list of all containers' names. Without
root they are made in a user namespace. Nothing of it is left when the test's process is gone, even if it was killed:
namespaces end with their last process, and each process here ends with the one that made it.
"""

import itertools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import etcd_server

PROGRAMS = ("unshare", "nsenter", "setpriv", "mount", "chroot", "ip")
NETWORK = "10.77.0"
HOST_ADDRESS = f"{NETWORK}.1"
START_SECONDS_MAX = 30
RUN_SECONDS_MAX = 90

_BRIDGE = f"""
set -e
ip link set lo up
ip link add containers type bridge
ip address add {HOST_ADDRESS}/24 dev containers
ip link set containers up
"""

# $1: the hosts file; then pairs of a volume and where it belongs. The new root is put together at /mnt, of this mount
# namespace alone: all that the machine has, except where a volume belongs.
_ROOT = """
set -e
hosts=$1; shift
mount -t tmpfs tmpfs /mnt
while [ $# -gt 0 ]; do
    mkdir -p "/mnt$2"; mount --bind "$1" "/mnt$2"; shift 2
done
for entry in /*; do
    if [ -L "$entry" ]; then cp -P "$entry" "/mnt$entry"
    elif [ -d "$entry" ] && [ "$entry" != /mnt ] && [ ! -e "/mnt$entry" ]; then
        mkdir "/mnt$entry"; mount --rbind "$entry" "/mnt$entry"
    fi
done
mount --bind "$hosts" /mnt/etc/hosts
echo made
exec chroot /mnt cat
"""


class NamespacesMissingError(Exception):
    """No namespaces here; says what they take."""


class Namespace:
    """One that a process keeps, which does nothing but wait for its input to end; others enter it."""

    def __init__(self, keeper: "subprocess.Popen[bytes]", enter_flags: Sequence[str]) -> None:
        self._keeper = keeper
        self._enter = ["nsenter", "--target", str(keeper.pid), *enter_flags]
        said = _read_line(keeper)
        if said != b"made\n":
            self.end()
            assert keeper.stderr is not None
            raise NamespacesMissingError(f"{said.decode()}{keeper.stderr.read().decode()}".strip())

    @property
    def pid(self) -> int:
        return self._keeper.pid

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command as it runs in there: its process id is the one that the caller sees, and it dies with the
        thread that started it."""
        return [*self._enter, "setpriv", "--pdeathsig", "KILL", "--", *command]

    def run(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, seconds: float = RUN_SECONDS_MAX
    ) -> "subprocess.CompletedProcess[str]":
        """To its end; what it printed is text."""
        return subprocess.run(
            self.inside(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=dict(environment or programs()),
            timeout=seconds,
        )

    def must(self, *command: str) -> str:
        done = self.run(command)
        assert done.returncode == 0, f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def end(self) -> None:
        self._keeper.kill()
        self._keeper.wait()


class Machine:
    """The host, and the containers that are made on it; `with` ends them all."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count(10)
        self._names: dict[str, str] = {}
        self._ends = ExitStack()
        try:
            privilege, enter_privilege = _privilege()
            self._enter_flags = [*enter_privilege, "--net", "--mount", "--root", "--wd"]
            self.host = self._keep(
                ["unshare", *privilege, "--net", "--mount", "sh", "-c", f"{_BRIDGE}echo made; exec cat"]
            )
        except BaseException:
            self._ends.close()
            raise

    def __enter__(self) -> "Machine":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def name(self, container: str) -> str:
        """The address by which others find the container; it has to have a name before anybody starts."""
        address = f"{NETWORK}.{next(self._numbers)}"
        self._names[container] = address
        return address

    def container(self, name: str, volumes: Mapping[str, Path]) -> Namespace:
        """`volumes`: where in the container, and what it is outside."""
        hosts = self._directory / f"hosts-of-{name}"
        lines = ["127.0.0.1 localhost", *(f"{address} {other}" for other, address in self._names.items())]
        hosts.write_text("\n".join(lines) + "\n")
        pairs = [word for target, volume in volumes.items() for word in (str(volume), target)]
        made = self._keep(
            self.host.inside(["unshare", "--net", "--mount", "sh", "-c", _ROOT, "sh", str(hosts), *pairs])
        )
        address = self._names[name]
        end = f"to-{address.rpartition('.')[2]}"
        self.host.must("ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", str(made.pid))
        self.host.must("ip", "link", "set", end, "master", "containers", "up")
        made.must("ip", "address", "add", f"{address}/24", "dev", "eth0")
        made.must("ip", "link", "set", "eth0", "up")
        made.must("ip", "link", "set", "lo", "up")
        return made

    def _keep(self, command: Sequence[str]) -> Namespace:
        keeper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for pipe in (keeper.stdin, keeper.stdout, keeper.stderr):
            assert pipe is not None
            self._ends.callback(pipe.close)
        namespace = Namespace(keeper, self._enter_flags)
        self._ends.callback(namespace.end)
        return namespace


def programs() -> dict[str, str]:
    """The environment that finds the programs which the images have: ours, Python, and etcd."""
    found = [Path(sys.executable).parent, Path(etcd_server.install()).parent]
    return {
        "PATH": ":".join(
            [*map(str, found), "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        )
    }


def _privilege() -> tuple[list[str], list[str]]:
    """What `unshare` and `nsenter` are to be told: a user namespace; where there is none, root does without."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        raise NamespacesMissingError(f"Linux's {', '.join(missing)} (packages util-linux and iproute2) are missing")
    tried = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "--mount", "true"], capture_output=True, text=True
    )
    if tried.returncode == 0:
        return ["--user", "--map-root-user"], ["--user", "--preserve-credentials"]
    if os.geteuid() == 0:
        return [], []
    raise NamespacesMissingError(f"neither root nor user namespaces: {tried.stderr.strip()}")


def _read_line(keeper: "subprocess.Popen[bytes]") -> bytes:
    watchdog = threading.Timer(START_SECONDS_MAX, keeper.kill)
    watchdog.start()
    try:
        assert keeper.stdout is not None
        return keeper.stdout.readline()
    finally:
        watchdog.cancel()
