import argparse
from pathlib import Path

import pytest
from simulation.network import MemoryNetwork

from tailrace.cli.options.client_config import client_config_option, secured
from tailrace.client.secure_network import SecureNetwork
from tailrace.runtime.settings import SettingsError


def test_the_flag_takes_precedence_over_the_environment(tmp_path: Path) -> None:
    network = MemoryNetwork()
    plain, sasl = tmp_path / "plain", tmp_path / "sasl"
    plain.write_text("bootstrap.servers=x:1")
    sasl.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=b")
    environment = {"TAILRACE_CLIENT_CONFIG": str(sasl)}
    assert secured(network, None, {}) is network
    assert isinstance(secured(network, None, environment), SecureNetwork)
    assert secured(network, str(plain), environment) is network


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\nssl.truststore.certificates=nonsense")
    with pytest.raises(SettingsError, match=r"client\.properties: a certificate cannot be used"):
        secured(MemoryNetwork(), str(path), {})


def test_the_option_is_added() -> None:
    parser = argparse.ArgumentParser()
    client_config_option(parser)
    assert parser.parse_args(["--client-config", "x"]).client_config == "x"
