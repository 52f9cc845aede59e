"""The broker with logins that all tests of this folder share."""

import subprocess
from collections.abc import Iterator

import pytest
from cluster import tailrace
from secured_broker import PASSWORD, USER, SecuredBroker, SecuredTailrace


@pytest.fixture(scope="package")
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """Yields a broker with the user alice, who was created with `tailrace user create`."""
    if request.config.getoption("--broker") != "tailrace":
        pytest.skip("Apache Kafka gets its users in another way")
    broker = SecuredTailrace(tmp_path_factory.mktemp("secured"))
    running = broker.start()
    try:
        create = tailrace("user", "create", USER, "--password-stdin", "--bootstrap", running.open_address)
        subprocess.run(create, input=PASSWORD.encode(), check=True, timeout=30)
        yield running
        assert PASSWORD not in broker.errors()
    finally:
        broker.stop()
