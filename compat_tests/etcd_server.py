"""Runs a real etcd for tests, on free loopback ports and in its own directory.

The tests use the command that TAILRACE_ETCD names, or `etcd` on the path. If there is neither, `python -m etcd_server`
unpacks Debian's package `etcd-server` into the user's cache directory. That needs apt, but neither root nor a running
service.
"""

import fcntl
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from free_ports import free_port

PACKAGE = "etcd-server"
READY_SECONDS_MAX = 30
STOP_SECONDS_MAX = 30
FETCH_SECONDS_MAX = 300
STARTS_MAX = 5


class EtcdMissingError(Exception):
    """There is no etcd on this machine; the message says what to install."""


def etcd() -> str:
    """Returns the command that runs etcd."""
    if given := os.environ.get("TAILRACE_ETCD"):
        return given
    found = shutil.which("etcd") or (str(_unpacked()) if _unpacked().exists() else None)
    if found is None:
        raise EtcdMissingError(
            f"there is no etcd on this machine: run `make test`, which fetches it, or install Debian's {PACKAGE} "
            f"(apt-get install {PACKAGE}), or name the command in TAILRACE_ETCD"
        )
    return found


def install() -> str:
    """Returns the command that runs etcd, which this call installs first if it is missing.

    Many processes may call it at the same time.
    """
    try:
        return etcd()
    except EtcdMissingError as missing:
        _cache().mkdir(parents=True, exist_ok=True)
        with (_cache() / "etcd.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _unpacked().exists():
                _fetch(missing)
    return etcd()


class Etcd:
    """One etcd process. It keeps its address after the first start, and its data outlives the process."""

    def __init__(self, directory: Path, certificates: Path | None = None) -> None:
        """`certificates` is a directory with `server.pem` and `ca.pem`: etcd then demands TLS and a certificate."""
        self._certificates = certificates
        self.endpoint = ""
        """The HOST:PORT of etcd, or an empty string before the first start."""
        self._data = directory / "etcd"
        self._log = directory / "etcd.log"
        self._ports: tuple[int, int] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The value for `--store`."""
        return f"{'etcds' if self._certificates else 'etcd'}://{self.endpoint}"

    def start(self) -> None:
        """Starts etcd and returns once it serves. If another process takes the port in the meantime, it tries other
        ports."""
        for _ in range(STARTS_MAX):
            ports = self._ports or (free_port(), free_port())
            if self._start(*ports):
                self._ports = ports
                self.endpoint = f"127.0.0.1:{ports[0]}"
                return
            if self._ports is None:
                shutil.rmtree(self._data, ignore_errors=True)
        raise AssertionError(f"etcd did not start in {STARTS_MAX} attempts:\n{self.last_output()}")

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Stops the process with SIGSTOP: it keeps its connections, but does not respond."""
        assert self._process is not None, "etcd has not been started"
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # wait until it has stopped

    def thaw(self) -> None:
        assert self._process is not None, "etcd has not been started"
        self._process.send_signal(signal.SIGCONT)

    def call(
        self, path: str, body: dict[str, object], context: ssl.SSLContext | None = None, token: str = ""
    ) -> object:
        """Calls etcd's JSON gateway."""
        url = f"{'http' if context is None else 'https'}://{self.endpoint}{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"authorization": token} if token else {})
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return json.loads(answer.read())

    def last_output(self) -> str:
        return "\n".join(self._log.read_text().splitlines()[-20:]) if self._log.exists() else ""

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"etcd did not end in {STOP_SECONDS_MAX} s after {how.name}") from None

    def _start(self, client_port: int, peer_port: int) -> bool:
        client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
        health, security = client, []
        if self._certificates is not None:
            client, health = client.replace("http:", "https:"), f"http://127.0.0.1:{free_port()}"
            own, trusted = f"{self._certificates}/server.pem", f"{self._certificates}/ca.pem"
            security = ["--cert-file", own, "--key-file", own, "--client-cert-auth", "--trusted-ca-file", trusted]
            security += ["--listen-metrics-urls", health]
        command = [
            *(etcd(), "--data-dir", str(self._data)),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}"),
            *security,
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while self._process.poll() is None:
            if _is_healthy(health):
                return True
            if time.monotonic() > deadline:
                self.kill()
                break
            time.sleep(0.01)
        return False


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=1) as answer:
            return b'"true"' in answer.read()
    except OSError:
        return False


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tailrace"


def _unpacked() -> Path:
    return _cache() / "etcd" / "usr" / "bin" / "etcd"


def _fetch(missing: EtcdMissingError) -> None:
    """Downloads and unpacks the package. Its files appear in the cache only when all of them are there."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise missing
    with tempfile.TemporaryDirectory(dir=_cache()) as scratch:
        lists = Path(scratch, "lists", "partial")
        lists.mkdir(parents=True)
        own_lists = ["-o", f"Dir::State::lists={lists.parent}", "-o", "APT::Sandbox::User="]
        commands = (
            ["apt-get", *own_lists, "-qq", "update"],
            ["apt-get", *own_lists, "-qq", "download", PACKAGE],
        )
        for command in commands:
            done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX)
            if done.returncode != 0:
                raise EtcdMissingError(f"{missing}; {' '.join(command)} says:\n{done.stdout}{done.stderr}") from None
        package = next(Path(scratch).glob(f"{PACKAGE}_*.deb"))
        subprocess.run(["dpkg-deb", "-x", str(package), f"{scratch}/etcd"], check=True, timeout=FETCH_SECONDS_MAX)
        shutil.move(Path(scratch, "etcd"), _cache() / "etcd")


if __name__ == "__main__":
    try:
        print(install())
    except EtcdMissingError as error:
        sys.exit(str(error))
