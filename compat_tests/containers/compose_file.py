"""Reads docker-compose.yml, docker-compose.secure.yml and the Dockerfile into values, as far as they use their formats.

An unknown key is an error, because the tests would not run what it asks for.
"""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

ROOT = Path(__file__).parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yml"
SECURE_FILE = ROOT / "docker-compose.secure.yml"
"""What closes the cluster of docker-compose.yml. Compose merges it into that file."""
DOCKERFILE = ROOT / "Dockerfile"

_SERVICE_KEYS = {
    *("image", "build", "entrypoint", "command", "environment", "ports", "volumes", "depends_on"),
    *("restart", "stop_grace_period", "healthcheck", "secrets"),
}
_INSTRUCTIONS = {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "VOLUME", "HEALTHCHECK", "ENTRYPOINT"}
_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+):-([^}]*)\})")


class Image(Struct, frozen=True):
    """One stage of the Dockerfile."""

    base: str
    entrypoint: list[str]
    environment: dict[str, str]
    user: str | None
    volumes: list[str]
    health_command: list[str]


class Published(Struct, frozen=True):
    """A port of the host that leads to a port of the container."""

    host_address: str
    host_port: int
    container_port: int


class HealthCheck(Struct, frozen=True):
    command: list[str]
    start_seconds_max: float
    """How long the check may fail after the start."""
    timeout_seconds: float


class Service(Struct, frozen=True):
    name: str
    command: list[str]
    """The command, after the entry point."""
    environment: dict[str, str]
    """The environment of the service, with the variables that the image sets."""
    ports: list[Published]
    volumes: dict[str, str]
    """The names of volumes, by their directories in the container."""
    secrets: dict[str, str]
    """The contents of the files in /run/secrets, by their names."""
    depends_on: dict[str, str]
    """The conditions that other services must meet before this one starts."""
    restart: str
    stop_seconds_max: float
    health: HealthCheck | None


def read_services(variables: Mapping[str, str], *, secure: bool = False) -> dict[str, Service]:
    """Reads the services; `variables` are those of the shell in which `docker compose` would run."""
    texts = [COMPOSE_FILE.read_text(), *([SECURE_FILE.read_text()] if secure else [])]
    first, *more = (_interpolate(yaml.safe_load(text), variables) for text in texts)
    services = first["services"]
    secrets: dict[str, str] = {}
    for document in more:
        for name, keys in document["services"].items():
            services[name] = _merged(services.get(name, {}), keys)
        for name, source in document["secrets"].items():
            secrets[name] = variables.get(source["environment"], "")
    images = read_images()
    return {name: _service(name, keys, images, secrets) for name, keys in services.items()}


def _merged(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Merges a service of a second file as Compose does: maps and volumes grow, and other values are replaced."""
    merged = {**before, **after}
    for key in ("environment", "depends_on"):
        if key in before and key in after:
            merged[key] = {**_conditions(before[key]), **_conditions(after[key])}
    for key in ("volumes", "ports"):
        if key in before and key in after:
            merged[key] = [*before[key], *after[key]]
    return merged


def _conditions(named: Any) -> dict[str, Any]:
    """Returns `depends_on` in its long form."""
    return {other: {"condition": "service_started"} for other in named} if isinstance(named, list) else named


def read_images() -> dict[str, Image]:
    images: dict[str, Image] = {}
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    for stage in re.split(r"^(?=FROM )", text, flags=re.MULTILINE):
        if not stage.strip():
            continue
        lines = [line.split(maxsplit=1) for line in stage.splitlines() if line]
        known = {instruction for instruction, _ in lines}
        assert known <= _INSTRUCTIONS, f"the Dockerfile has an instruction that the tests do not know: {known}"
        base, _, name = lines[0][1].split()
        output = dict(lines)
        images[name] = Image(
            base,
            json.loads(output.get("ENTRYPOINT", "[]")),
            dict(word.split("=", 1) for word in shlex.split(output.get("ENV", ""))),
            output.get("USER"),
            output.get("VOLUME", "").split(),
            json.loads(output.get("HEALTHCHECK", "CMD []").partition("CMD")[2]),
        )
    return images


def _service(name: str, keys: dict[str, Any], images: Mapping[str, Image], secrets: Mapping[str, str]) -> Service:
    assert set(keys) <= _SERVICE_KEYS, f"the tests do not know all keys of {name}: {sorted(set(keys) - _SERVICE_KEYS)}"
    image = images[keys["build"]["target"]]
    depends_on = _conditions(keys.get("depends_on", {}))
    return Service(
        name,
        keys.get("entrypoint", image.entrypoint) + keys.get("command", []),
        image.environment | {key: str(value) for key, value in keys.get("environment", {}).items()},
        [_published(text) for text in keys.get("ports", [])],
        {target: volume for volume, target in (text.split(":") for text in keys.get("volumes", []))},
        {secret: secrets[secret] for secret in keys.get("secrets", [])},
        {other: condition["condition"] for other, condition in depends_on.items()},
        keys.get("restart", "no"),
        _seconds(keys.get("stop_grace_period", "10s")),
        _health_check(keys["healthcheck"]) if "healthcheck" in keys else None,
    )


def _published(text: str) -> Published:
    host_address, host_port, container_port = text.split(":")
    return Published(host_address, int(host_port), int(container_port))


def _health_check(keys: dict[str, Any]) -> HealthCheck:
    kind, *command = keys["test"]
    assert kind == "CMD", "the tests run health checks without a shell only"
    return HealthCheck(command, _seconds(keys["start_period"]), _seconds(keys["timeout"]))


def _seconds(text: str) -> float:
    assert re.fullmatch(r"\d+s", text), f"{text}: the tests read whole seconds only"
    return float(text[:-1])


def _interpolate(document: Any, variables: Mapping[str, str]) -> Any:
    """Replaces `${NAME:-default}`, and `$$` by a dollar sign."""
    match document:
        case dict():
            return {key: _interpolate(value, variables) for key, value in document.items()}
        case list():
            return [_interpolate(value, variables) for value in document]
        case str():
            return _VARIABLE.sub(lambda found: "$" if found[1] else variables.get(found[2]) or found[3], document)
        case _:
            return document
