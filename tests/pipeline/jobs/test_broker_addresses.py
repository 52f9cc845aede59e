import pytest

from tailrace.pipeline.jobs.broker_addresses import addresses_in_option, chosen_brokers, parse_brokers
from tailrace.runtime.network import Address
from tailrace.runtime.settings import SettingsError


def test_brokers_come_from_the_argument_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAILRACE_BOOTSTRAP", raising=False)
    assert chosen_brokers(None) is None
    assert parse_brokers(None) == [Address("127.0.0.1", 9092)]
    monkeypatch.setenv("TAILRACE_BOOTSTRAP", "one:1, two:2")
    assert parse_brokers(None) == [Address("one", 1), Address("two", 2)]
    assert parse_brokers("three:3") == [Address("three", 3)]
    with pytest.raises(SettingsError, match="bootstrap: 'nowhere' is not HOST:PORT"):
        parse_brokers("nowhere")


def test_the_option_of_kafka_may_name_protocols_and_have_empty_elements() -> None:
    found = addresses_in_option("PLAINTEXT://one:1, ,SASL_SSL://[::1]:2,")
    assert found == [Address("one", 1), Address("::1", 2)]
    for text in ("nowhere", " , "):
        with pytest.raises(SettingsError, match=r"kafka\.bootstrap\.servers"):
            addresses_in_option(text)
