"""Runs the API server of Kubernetes that serves custom resources, on a free loopback port and on a real etcd.

It is `apiextensions-apiserver`, the part of kube-apiserver that serves custom resources, as a program of its own.
`python -m kubernetes_server` builds it with Go into the user's cache directory. The tests use that, or the command that
TAILRACE_KUBERNETES names.
"""

import fcntl
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

import trustme
import yaml
from etcd_server import Etcd
from free_ports import free_port

from tailrace.controller.key_value.kubernetes.kubernetes_access import kubeconfig_access
from tailrace.controller.key_value.kubernetes.kubernetes_api import GROUP, PLURAL, KubernetesApi
from tailrace.runtime.files import RealFiles
from tailrace.runtime.network import TcpNetwork

MODULE = "k8s.io/apiextensions-apiserver"
VERSION = "v0.34.2"
RESOURCE = Path(__file__).parents[1] / "deploy" / "kubernetes" / "store.yaml"
NAMESPACE = "tests"
BUILD_SECONDS_MAX = 1200
READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30


class KubernetesMissingError(Exception):
    """There is no API server on this machine; the message says what to install."""


def kubernetes() -> str:
    """Returns the command that runs the API server."""
    given = os.environ.get("TAILRACE_KUBERNETES")
    if given is None and not _built().exists():
        raise KubernetesMissingError(
            f"there is no {MODULE} on this machine: run `make test`, which builds it with Go, or name the command in "
            "TAILRACE_KUBERNETES"
        )
    return given or str(_built())


def install() -> str:
    """Returns the command that runs the API server, which this call builds first if it is missing.

    Raises KubernetesMissingError without Go: then tests skip what needs the server.
    """
    try:
        return kubernetes()
    except KubernetesMissingError:
        if shutil.which("go") is None:
            raise
        _built().parent.mkdir(parents=True, exist_ok=True)
        with _built().with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _built().exists():
                _build()
    return kubernetes()


class KubernetesServer:
    """One API server process, with the custom resource of the store. It ends with the `with` block."""

    def __init__(self, etcd: Etcd, directory: Path) -> None:
        self.kubeconfig = directory / "kubeconfig"
        self._etcd = etcd
        self._directory = directory
        self._log = directory / "api-server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._authority = trustme.CA()
        self._server = f"https://127.0.0.1:{free_port()}"

    def api(self) -> KubernetesApi:
        """Returns what a store calls the server with."""
        return KubernetesApi(TcpNetwork(), RealFiles(), kubeconfig_access(RealFiles(), str(self.kubeconfig)))

    def __enter__(self) -> "KubernetesServer":
        self._write_files()
        self.start()
        self._request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", RESOURCE.read_bytes())
        self._wait(f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/{PLURAL}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        nowhere = self._directory / "nowhere"
        command = [
            *(kubernetes(), "--etcd-servers", f"http://{self._etcd.endpoint}"),
            *("--secure-port", self._server.rpartition(":")[2], "--bind-address", "127.0.0.1"),
            *("--tls-cert-file", f"{self._directory}/server.pem", "--tls-private-key-file"),
            *(f"{self._directory}/server-key.pem", "--client-ca-file", f"{self._directory}/authority.pem"),
            # There is no Kubernetes beside this server. The client certificate is that of an administrator.
            *("--kubeconfig", str(nowhere), "--authentication-kubeconfig", str(nowhere)),
            *("--authorization-kubeconfig", str(nowhere), "--authentication-skip-lookup"),
            "--disable-admission-plugins=NamespaceLifecycle,MutatingAdmissionPolicy,MutatingAdmissionWebhook,"
            "ValidatingAdmissionPolicy,ValidatingAdmissionWebhook",
            "--enable-priority-and-fairness=false",
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._wait("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")

    def stop(self) -> None:
        """Kills the process. What it has accepted is in etcd."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_SECONDS_MAX)

    def _write_files(self) -> None:
        directory = self._directory
        server = self._authority.issue_cert("127.0.0.1")
        client = self._authority.issue_cert("sc@example.org", organization_name="system:masters", common_name="sc")
        self._authority.cert_pem.write_to_path(str(directory / "authority.pem"))
        server.cert_chain_pems[0].write_to_path(str(directory / "server.pem"))
        server.private_key_pem.write_to_path(str(directory / "server-key.pem"))
        client.cert_chain_pems[0].write_to_path(str(directory / "client.pem"))
        client.private_key_pem.write_to_path(str(directory / "client-key.pem"))
        (directory / "nowhere").write_text(_kubeconfig({"server": "http://127.0.0.1:1"}, {}))
        self.kubeconfig.write_text(
            _kubeconfig(
                {"server": self._server, "certificate-authority": "authority.pem"},
                {"client-certificate": "client.pem", "client-key": "client-key.pem"},
            )
        )

    def _wait(self, path: str) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            assert self._process is not None
            try:
                self._request("GET", path)
                return
            except OSError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"the API server did not start: {error}\n{self._last_output()}") from error
                time.sleep(0.05)

    def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        context = ssl.create_default_context(cafile=str(self._directory / "authority.pem"))
        context.load_cert_chain(self._directory / "client.pem", self._directory / "client-key.pem")
        request = urllib.request.Request(f"{self._server}{path}", body, method=method)
        request.add_header("content-type", "application/yaml")
        with urllib.request.urlopen(request, timeout=10, context=context) as response:
            content: bytes = response.read()
            return content

    def _last_output(self) -> str:
        return "\n".join(self._log.read_text().splitlines()[-20:]) if self._log.exists() else ""


def _kubeconfig(cluster: dict[str, str], user: dict[str, str]) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "sc", "user": user}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "sc", "namespace": NAMESPACE}}],
            "current-context": "tests",
        }
    )


def _built() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tailrace"
    return cache / f"kubernetes-{VERSION}" / "apiextensions-apiserver"


def _build() -> None:
    with tempfile.TemporaryDirectory(dir=_built().parent) as scratch:
        command = ["go", "install", f"{MODULE}@{VERSION}"]
        environment = {**os.environ, "GOBIN": scratch}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        Path(scratch, _built().name).rename(_built())


if __name__ == "__main__":
    try:
        print(install())
    except KubernetesMissingError as error:
        print(f"{error}; the tests that need it are skipped")
