"""A running project per test module and worker, and a machine for what a page tells people to type."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from containers.namespaces import Machine, NamespacesMissingError
from containers.project import Project


def _missing(error: NamespacesMissingError) -> None:
    """Root can have what is missing, so that is a failure; for others it is no reason to have no green tests."""
    sentence = f"needs Linux namespaces, as root or in a user namespace (unshare -Urnm), and {error}"
    if os.geteuid() == 0:
        pytest.fail(sentence)
    pytest.skip(sentence)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows what the containers said last."""
    report = yield
    project = getattr(item, "funcargs", {}).get("project")
    if report.failed and project is not None:
        report.sections.append(("containers", project.words()))
    return report


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A host where every port is free."""
    try:
        with Machine(tmp_path) as machine:
            yield machine
    except NamespacesMissingError as error:
        _missing(error)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """After `docker compose up --wait`."""
    try:
        running = Project(tmp_path_factory.mktemp("project"))
    except NamespacesMissingError as error:
        _missing(error)
    with running:
        running.up()
        yield running
