"""The broker with logins that all tests of this folder share."""

from collections.abc import Iterator

import pytest
from secured_broker import PASSWORD, SecuredBroker, SecuredTailrace


@pytest.fixture(scope="package")
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """Yields a broker with the user alice, who was created with `tailrace user create`."""
    if request.config.getoption("--broker") != "tailrace":
        pytest.skip("Apache Kafka gets its users in another way")
    broker = SecuredTailrace(tmp_path_factory.mktemp("secured"))
    try:
        yield broker.start()
        assert PASSWORD not in broker.errors()
    finally:
        broker.stop()
