"""A host and containers with their own network, made of Linux namespaces.

The host is a network namespace with a bridge, as a container engine makes it. A container is a network namespace on
that bridge, whose root directory has its own volumes and a list of all containers' names. Without root, they are made
in a user namespace.

Nothing remains after the test's process has ended, even if it was killed: namespaces end with their last process, and
each process here ends with its parent.
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

# The script takes the hosts file as $1, and then pairs of a volume and its place. It builds the new root at /mnt, which
# only this mount namespace sees: it has everything that the machine has, except where a volume belongs.
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
    """This machine cannot make namespaces; the message says what is missing."""


class Namespace:
    """A namespace that lasts as long as a process that waits for the end of its input; other processes enter it."""

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
        """Returns the command that runs `command` inside.

        The caller sees its process id, and it dies with the thread that started it.
        """
        return [*self._enter, "setpriv", "--pdeathsig", "KILL", "--", *command]

    def run(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, seconds: float = RUN_SECONDS_MAX
    ) -> "subprocess.CompletedProcess[str]":
        """Runs a command to its end, and returns its result with the output as text."""
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
    """A host, and the containers that are made on it; the end of the `with` block ends them all."""

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
        """Returns an address at which others find the container, which needs a name before any process starts."""
        address = f"{NETWORK}.{next(self._numbers)}"
        self._names[container] = address
        return address

    def container(self, name: str, volumes: Mapping[str, Path]) -> Namespace:
        """Makes a container; `volumes` maps directories in the container to directories outside it."""
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
        made.must("ip", "route", "add", "default", "via", HOST_ADDRESS)
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
    """Returns an environment in which the programs of the images are found: ours, Python, and etcd."""
    found = [Path(sys.executable).parent, Path(etcd_server.install()).parent]
    return {
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),  # of the checkout that is tested
        "PATH": ":".join(
            [*map(str, found), "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        ),
    }


def _privilege() -> tuple[list[str], list[str]]:
    """Returns the options of `unshare` and `nsenter`: for a user namespace, or for root if there are none."""
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
