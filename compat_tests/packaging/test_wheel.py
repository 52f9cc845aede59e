"""The wheel contains only the package `tailrace`, and a package index can show it."""

import email
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from product import PACKAGES

RUN_SECONDS_MAX = 60


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory with the installed wheel. Its dependencies come from this environment."""
    directory = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", directory, wheel]
    subprocess.run(pip, check=True, timeout=300)
    return directory


def _run(site: Path, directory: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Runs Python with the installed wheel before everything else."""
    return subprocess.run(
        [sys.executable, "-P", *words],
        cwd=directory,
        env={"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
    )


def test_the_wheel_made_from_the_sdist_installs_as_tailrace_alone(wheel: Path, site: Path, tmp_path: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"tailrace", wheel.name.rsplit("-py3", 1)[0] + ".dist-info"}
    for package in PACKAGES:
        assert f"tailrace/{package}/__init__.py" in names
    script = f"""
import importlib.util, sys, tailrace, tailrace.cli.main
assert tailrace.__file__.startswith({str(site)!r}), tailrace.__file__
for name in {PACKAGES!r}:
    assert importlib.util.find_spec(name) is None, name
tailrace.cli.main.main(["--version"])
"""
    ran = _run(site, tmp_path, "-c", script)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("tailrace ")


def test_pytest_finds_the_fixture_in_an_environment_with_the_wheel(site: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(tailrace_broker):\n    assert tailrace_broker.topic\n")
    ran = _run(site, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_an_index_can_show_both_archives(archives: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *archives.iterdir()],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_description_has_no_link_that_an_index_cannot_follow(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Description-Content-Type"] == "text/markdown"
    links = re.findall(r"\]\(([^)]*)\)", metadata.get_payload())
    assert links
    assert all(link.startswith("https://") for link in links), links


def test_the_source_archive_has_the_pages_and_the_files_for_deployment(archives: Path) -> None:
    (sdist,) = archives.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "docs/first-day.md",
        "docs/reference.md",
        "README.md",
        "Dockerfile",
        "deploy/kubernetes/store.yaml",
    } <= names
