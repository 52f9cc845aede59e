"""Fixtures for a running project per module and test worker, and for a machine that runs the commands of a page."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from containers.namespaces import Machine, NamespacesMissingError
from containers.project import Project

PASSWORD = "correct horse battery"
"""The password of the administrator of a closed project."""


def _missing(error: NamespacesMissingError) -> None:
    """Fails or skips the test: a failure for root, who can install what is missing, and no failure for other users."""
    sentence = f"needs Linux namespaces, as root or in a user namespace (unshare -Urnm), and {error}"
    if os.geteuid() == 0:
        pytest.fail(sentence)
    pytest.skip(sentence)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the containers' last output to the report of a failure."""
    report = yield
    used = getattr(item, "funcargs", {})
    project = used.get("project") or used.get("closed")
    if report.failed and project is not None:
        report.sections.append(("containers", project.words()))
    return report


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Yields a host where every port is free."""
    try:
        with Machine(tmp_path) as machine:
            yield machine
    except NamespacesMissingError as error:
        _missing(error)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yields a project after `docker compose up --wait`."""
    yield from _running(tmp_path_factory.mktemp("project"), None)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yields a project that docker-compose.secure.yml has closed, after `docker compose up --wait`."""
    yield from _running(tmp_path_factory.mktemp("closed"), PASSWORD)


def _running(directory: Path, password: str | None) -> Iterator[Project]:
    try:
        running = Project(directory, password)
    except NamespacesMissingError as error:
        _missing(error)
    with running:
        running.up()
        yield running
