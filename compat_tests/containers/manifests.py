"""Reads the Kubernetes manifests of deploy/kubernetes, and resolves what Kubernetes would give a pod's containers."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

DIRECTORY = Path(__file__).parents[2] / "deploy" / "kubernetes"
NAMESPACE = "tailrace"
_REFERENCE = re.compile(r"\$\((\w+)\)")
_ZONE = "metadata.labels['topology.kubernetes.io/zone']"


def objects() -> list[dict[str, Any]]:
    """Returns all objects of all manifests that the kustomization names."""
    kustomization = yaml.safe_load((DIRECTORY / "kustomization.yaml").read_text())
    assert kustomization["namespace"] == NAMESPACE
    return [
        each
        for name in kustomization["resources"]
        for each in yaml.safe_load_all((DIRECTORY / name).read_text())
        if each
    ]


def named(kind: str, name: str) -> dict[str, Any]:
    """Returns one object."""
    (found,) = (each for each in objects() if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


def workloads() -> Iterator[dict[str, Any]]:
    """Yields the objects that make pods."""
    return (each for each in objects() if each["kind"] in ("Deployment", "StatefulSet"))


def command(container: Mapping[str, Any], entrypoint: list[str]) -> list[str]:
    """Returns what a container runs. `entrypoint` is that of its image."""
    words: list[str] = [*container.get("command", entrypoint), *container.get("args", [])]
    return words


def environment(container: Mapping[str, Any], pod: str, zone: str = "") -> dict[str, str]:
    """Returns the environment that Kubernetes gives a container of a pod."""
    fields = {"metadata.name": pod, "metadata.namespace": NAMESPACE, _ZONE: zone}
    known: dict[str, str] = {}
    for variable in container.get("env", []):
        if "value" in variable:
            value = _REFERENCE.sub(lambda found: known[found[1]], variable["value"])
        else:
            value = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        known[variable["name"]] = value
    return known
