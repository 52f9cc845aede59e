"""The brokers that all tests of this folder share: one with logins, and one with access rules as well."""

from collections.abc import Iterator

import pytest
from brokers import is_apache_kafka
from secured_broker import PASSWORD, SecuredApacheKafka, SecuredBroker, SecuredTailrace
from security.guarded import GuardedApacheKafka, GuardedBroker, GuardedTailrace


@pytest.fixture(scope="package")
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """Yields a broker with the user alice."""
    kind = SecuredApacheKafka if is_apache_kafka(request) else SecuredTailrace
    broker = kind(tmp_path_factory.mktemp("secured"))
    try:
        yield broker.start()
        assert PASSWORD not in broker.errors()
    finally:
        broker.stop()


@pytest.fixture(scope="package")
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    """Yields a broker with an authorizer and the user alice."""
    kind = GuardedApacheKafka if is_apache_kafka(request) else GuardedTailrace
    broker = kind(tmp_path_factory.mktemp("guarded"))
    try:
        yield broker.start()
    finally:
        broker.stop()
