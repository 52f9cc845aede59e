"""The manifests of deploy/kubernetes fit Kubernetes' schemas and each other, and their commands make a cluster."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlunsplit

import kubernetes_validate
import pytest
from containers.client import PROGRAM
from containers.compose_file import read_images
from containers.manifests import DIRECTORY, NAMESPACE, command, environment, named, objects, workloads
from containers.namespaces import Machine, Namespace, programs
from waiting import wait_until

READY_SECONDS_MAX = 30
IMAGE = read_images()["tailrace"]
ENTRYPOINT = IMAGE.entrypoint
KUBERNETES_VERSIONS = ("1.30", "1.37")
"""The oldest and the newest version whose schemas the manifests must fit."""


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_every_object_fits_its_schema(version: str) -> None:
    for each in objects():
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_puts_all_objects_into_the_namespace() -> None:
    made = subprocess.run(["kubectl", "kustomize", DIRECTORY], capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    assert made.stdout.count(f"\n  namespace: {NAMESPACE}\n") >= 10


def _pod(workload: Mapping[str, Any]) -> Any:
    return workload["spec"]["template"]


def _selects(selector: Mapping[str, str], pod: Mapping[str, Any]) -> bool:
    return selector.items() <= pod["metadata"]["labels"].items()


def test_what_one_object_names_exists_in_another() -> None:
    pods = [_pod(workload) for workload in workloads()]
    names = {(each["kind"], each["metadata"]["name"]) for each in objects()}
    for each in objects():
        spec = each.get("spec", {})
        match each["kind"]:
            case "Service":
                (pod,) = (pod for pod in pods if _selects(spec["selector"], pod))
                ports = {port["name"] for container in pod["spec"]["containers"] for port in container["ports"]}
                assert {port["targetPort"] for port in spec["ports"]} <= ports
            case "PodDisruptionBudget":
                assert [pod for pod in pods if _selects(spec["selector"]["matchLabels"], pod)]
            case "StatefulSet":
                assert ("Service", spec["serviceName"]) in names
            case "RoleBinding":
                assert ("Role", each["roleRef"]["name"]) in names
                assert all((subject["kind"], subject["name"]) in names for subject in each["subjects"])
    for workload in workloads():
        pod = _pod(workload)
        assert _selects(workload["spec"]["selector"]["matchLabels"], pod)
        assert pod["spec"].get("serviceAccountName") in (
            None,
            *(name for kind, name in names if kind == "ServiceAccount"),
        )
        volumes = {each["name"] for each in pod["spec"]["volumes"]}
        volumes |= {each["metadata"]["name"] for each in workload["spec"].get("volumeClaimTemplates", [])}
        for container in pod["spec"]["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                if probe in container:
                    assert container[probe]["httpGet"]["port"] in {port["name"] for port in container["ports"]}


def test_pods_run_as_the_user_of_the_image_with_no_privilege() -> None:
    """The namespace enforces the restricted profile, and the user must be the one that owns the data."""
    uid = "10001"
    assert f"--uid {uid} tailrace" in (DIRECTORY.parents[1] / "Dockerfile").read_text()
    for workload in workloads():
        spec = _pod(workload)["spec"]
        security = spec["securityContext"]
        assert security["runAsNonRoot"] and str(security["runAsUser"]) == str(security["fsGroup"]) == uid
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["enableServiceLinks"] is False
        for container in (*spec["containers"], *spec.get("initContainers", [])):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


class _Pod:
    """A namespace with the processes of a pod's containers."""

    def __init__(self, template: Mapping[str, Any], name: str, namespace: Namespace, log: Path) -> None:
        self.spec = template["spec"]
        self.name = name
        self.namespace = namespace
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    def run_init_containers(self, zone: str) -> None:
        for container in self.spec.get("initContainers", []):
            given = environment(container, self.name, zone) | programs()
            done = self.namespace.run(command(container, ENTRYPOINT), given)
            assert done.returncode == 0, done.stdout + done.stderr

    def start(self, **other: str) -> None:
        (container,) = self.spec["containers"]
        given = environment(container, self.name) | other | programs()
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                self.namespace.inside(command(container, ENTRYPOINT)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=given,
            )

    def wait_for(self, probe: str) -> None:
        """Waits until a probe succeeds."""
        (container,) = self.spec["containers"]
        get = container[probe]["httpGet"]
        (port,) = (port["containerPort"] for port in container["ports"] if port["name"] == get["port"])
        url = urlunsplit(("http", f"127.0.0.1:{port}", get["path"], "", ""))
        script = f"from urllib.request import urlopen; urlopen({url!r}, timeout=5)"

        def succeeds() -> bool:
            return self.namespace.run([sys.executable, "-c", script]).returncode == 0

        wait_until(succeeds, READY_SECONDS_MAX, f"{probe} of {self.name}: {self._log.read_text()}")

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(self.spec["terminationGracePeriodSeconds"])


def test_the_pods_make_a_cluster_that_serves_clients(machine: Machine, tmp_path: Path) -> None:
    """Runs every command of the manifests with its environment. Only the SC's store is another one, in memory."""
    stateful = named("StatefulSet", "tailrace-spu")
    names = [f"tailrace-spu-{number}.{stateful['spec']['serviceName']}.{NAMESPACE}.svc" for number in range(2)]
    for name in ("tailrace-sc", *names, "client"):
        machine.name(name)

    def pod(workload: Mapping[str, Any], name: str, host: str) -> _Pod:
        data = tmp_path / name
        data.mkdir()
        return _Pod(_pod(workload), name, machine.container(host, {"/data": data}), tmp_path / f"{name}.log")

    sc = pod(named("Deployment", "tailrace-sc"), "tailrace-sc", "tailrace-sc")
    spus = [pod(stateful, host.partition(".")[0], host) for host in names]
    client = machine.container("client", {})
    running = [sc, *spus]
    try:
        sc.start(TAILRACE_STORE="memory", TAILRACE_DATA="/data")
        for spu, zone in zip(spus, ("zone-a", ""), strict=True):
            spu.run_init_containers(zone)
            spu.start(TAILRACE_DATA="/data")
        for each in running:
            for probe in ("readinessProbe", "livenessProbe"):
                each.wait_for(probe)
        spus[0].run_init_containers("zone-b")  # as after a restart of the pod
        listed = sc.namespace.run([*ENTRYPOINT, "spu", "list", "--output", "json"])
        assert '"zone-a"' in listed.stdout and '"zone-b"' not in listed.stdout, listed.stdout + listed.stderr
        asked = client.run([sys.executable, PROGRAM, "kafka-python", "brokers", f"{names[0]}:9092"])
        assert asked.returncode == 0, asked.stderr
        assert asked.stdout.count(":9092") == 2 and names[1] in asked.stdout, asked.stdout
        for each in running:
            assert each.namespace.run(IMAGE.health_command).returncode == 0
        assert [each.stop() for each in (*spus, sc)] == [0, 0, 0]
        assert sc.namespace.run(IMAGE.health_command).returncode != 0
    finally:
        for each in running:
            if each.process is not None:
                each.process.kill()
                each.process.wait()
