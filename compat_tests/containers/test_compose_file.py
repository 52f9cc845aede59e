"""docker-compose.yml and the Dockerfile are valid and consistent, without running anything."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from containers.compose_file import COMPOSE_FILE, ROOT, read_images, read_services

CHECK = [str(Path(sys.executable).with_name("check-jsonschema")), "--builtin-schema", "vendor.compose-spec"]
SPUS = ("spu-1", "spu-2", "spu-3")


def _check(path: Path) -> "subprocess.CompletedProcess[str]":
    """Checks a file against the schema of the Compose specification, which comes with check-jsonschema."""
    return subprocess.run([*CHECK, str(path)], capture_output=True, text=True, timeout=60)


def test_the_compose_file_is_as_the_specification_has_it() -> None:
    done = _check(COMPOSE_FILE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("restart: on-failure", "restrat: on-failure"), ("condition: service_healthy", "condition: service_well")],
)
def test_the_check_finds_what_is_wrong(tmp_path: Path, right: str, wrong: str) -> None:
    spoilt = tmp_path / "docker-compose.yml"
    spoilt.write_text(COMPOSE_FILE.read_text().replace(right, wrong, 1))
    assert spoilt.read_text() != COMPOSE_FILE.read_text()
    assert _check(spoilt).returncode == 1


def test_images_have_short_names_and_run_without_root() -> None:
    images = read_images()
    assert not [image.base for image in images.values() if "/" in image.base]
    for name in ("tailrace", "etcd"):
        assert images[name].user not in (None, "root", "0"), name
        assert images[name].volumes == ["/data"]
    assert images["tailrace"].entrypoint == ["tailrace"]


def test_the_image_gets_everything_that_an_installation_needs(tmp_path: Path) -> None:
    """Installs the files that .dockerignore lets through, as the Dockerfile does."""
    let_through = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    source = tmp_path / "source"
    source.mkdir()
    for name in let_through:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source)
    installed = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(installed), str(source)]
    subprocess.run(pip, check=True, timeout=300)
    packages = {module.parent.name for module in (ROOT / "src" / "tailrace").glob("*/__init__.py")}
    assert packages <= {module.parent.name for module in (installed / "tailrace").glob("*/__init__.py")}
    assert (installed / "bin" / "tailrace").exists()


def test_every_server_keeps_its_data_in_a_volume_of_its_own_and_comes_back_by_itself() -> None:
    services = read_services({})
    servers = {name: service for name, service in services.items() if name != "register"}
    assert {name: service.volumes for name, service in servers.items()} == {name: {"/data": name} for name in servers}
    assert {service.restart for service in servers.values()} == {"unless-stopped"}


def test_by_default_only_this_host_can_connect() -> None:
    ports = [port for service in read_services({}).values() for port in service.ports]
    assert {port.host_address for port in ports} == {"127.0.0.1"}
    assert len({port.host_port for port in ports}) == len(ports)


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.7"])
def test_clients_of_a_published_port_are_told_that_port(host: str) -> None:
    services = read_services({"HOST_ADDRESS": host})
    for name in (*SPUS, "sc"):
        (port,) = services[name].ports
        assert port.host_address == host
        inside, outside = services[name].environment["TAILRACE_PUBLIC"].split(",")
        assert inside.partition("=")[2].split(":")[0] == name
        assert outside == f"0.0.0.0:{port.container_port}={host}:{port.host_port}"
