import json
from pathlib import Path

from tailrace.client.client_security import load_client_security
from tailrace.runtime.files import RealFiles
from tailrace.security.certificates.certificate_making import make_authority
from tailrace.testing import ClientLogin


def _login(tmp_path: Path) -> ClientLogin:
    path = tmp_path / "ca.pem"
    path.write_bytes(make_authority("tests", 1_900_000_000_000).certificate)
    return ClientLogin("127.0.0.1:9092", "alice", "secret", str(path))


def test_settings_differ_in_their_spelling_only(tmp_path: Path) -> None:
    login = _login(tmp_path)
    rdkafka, python, java = login.librdkafka(), login.kafka_python(), login.java()
    assert rdkafka["security.protocol"] == python["security_protocol"] == java["security.protocol"] == "SASL_SSL"
    assert rdkafka["ssl.ca.location"] == python["ssl_cafile"] == java["ssl.truststore.location"] == login.authority
    asynchronous = login.aiokafka()
    assert {*asynchronous} ^ {*python} == {"ssl_cafile", "ssl_context"}
    assert len(asynchronous["ssl_context"].get_ca_certs()) == 1
    assert login.principal == "User:alice"


def test_the_commands_of_tailrace_read_the_properties_of_java(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in _login(tmp_path).java().items()))
    security = load_client_security(str(path), RealFiles())
    assert (security.mechanism, security.user, security.password.reveal()) == ("SCRAM-SHA-256", "alice", "secret")
    assert security.uses_tls and security.trusted is not None


def test_new_settings_are_returned_each_time(tmp_path: Path) -> None:
    login = _login(tmp_path)
    login.librdkafka()["group.id"] = "billing"
    assert "group.id" not in json.dumps(login.librdkafka())
