from pathlib import Path

import pytest
from simulation.network import MemoryNetwork

from tailrace.client.client_network import client_network, client_seams, secured
from tailrace.client.secure_network import SecureNetwork
from tailrace.runtime.network import TcpNetwork
from tailrace.runtime.settings import SettingsError

SASL = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=b"


def test_the_flag_takes_precedence_over_the_environment(tmp_path: Path) -> None:
    network = MemoryNetwork()
    plain, sasl = tmp_path / "plain", tmp_path / "sasl"
    plain.write_text("bootstrap.servers=x:1")
    sasl.write_text(SASL)
    environment = {"TAILRACE_CLIENT_CONFIG": str(sasl)}
    assert secured(network, None, {}) is network
    assert isinstance(secured(network, None, environment), SecureNetwork)
    assert secured(network, str(plain), environment) is network


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\nssl.truststore.certificates=nonsense")
    with pytest.raises(SettingsError, match=r"client\.properties: a certificate cannot be used"):
        secured(MemoryNetwork(), str(path), {})


async def test_a_process_is_secured_by_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAILRACE_CLIENT_CONFIG", raising=False)
    assert isinstance(client_network(), TcpNetwork) and isinstance(client_seams().network, TcpNetwork)
    path = tmp_path / "client.properties"
    path.write_text(SASL)
    assert isinstance(client_seams(str(path)).network, SecureNetwork)
    monkeypatch.setenv("TAILRACE_CLIENT_CONFIG", str(path))
    assert isinstance(client_network(), SecureNetwork) and isinstance(client_seams().network, SecureNetwork)
