"""The files and settings of a cluster that `up --secure` closes."""

import stat
from pathlib import Path

import pytest
from secured_clusters import Clock, secured

from tailrace.cli.serving.secured_cluster import check_given, hosts_of
from tailrace.runtime.network import Address
from tailrace.runtime.settings import ListenerSettings, SettingsError
from tailrace.security.certificates.certificate_facts import DAY_MS, certificate_facts
from tailrace.security.settings.security_settings import parse_security_settings


def certificate(path: Path, name: str) -> bytes:
    return (path / "security" / f"{name}.pem").read_bytes()


def test_the_settings_encrypt_all_ports_between_servers_and_for_clients(tmp_path: Path) -> None:
    settings = parse_security_settings(secured(tmp_path).spu_settings(1))
    settings.check(("PUBLIC", "PUBLIC_1", "PRIVATE"))
    assert settings.protocol_of("PUBLIC_1") == "SASL_SSL"
    assert settings.protocol_of("PRIVATE") == "SSL"


def test_each_server_has_its_own_name_and_the_hosts_of_clients(tmp_path: Path) -> None:
    cluster = secured(tmp_path, hosts=("localhost", "192.0.2.7"))
    cluster.sc_settings()
    cluster.spu_settings(3)
    assert certificate_facts(certificate(tmp_path, "sc"))[0].hosts == ("localhost", "192.0.2.7", "sc.tailrace")
    assert certificate_facts(certificate(tmp_path, "spu-3"))[0].hosts == ("localhost", "192.0.2.7", "spu-3.tailrace")


def test_servers_get_new_certificates_from_a_new_authority(tmp_path: Path) -> None:
    cluster = secured(tmp_path)
    cluster.check_authority()
    cluster.spu_settings(1)
    first = certificate(tmp_path, "spu-1")
    (tmp_path / "security" / "ca.pem").unlink()
    with pytest.raises(SettingsError, match=r"ca.pem is missing, and the cluster was closed"):
        cluster.check_authority()
    cluster.prepare()
    cluster.spu_settings(1)
    assert certificate(tmp_path, "spu-1") != first


def test_certificates_stay_until_they_expire_soon_or_lack_a_host(tmp_path: Path) -> None:
    clock = Clock()
    secured(tmp_path, clock).spu_settings(1)
    first = certificate(tmp_path, "spu-1")
    clock.ms += 330 * DAY_MS
    secured(tmp_path, clock).spu_settings(1)
    assert certificate(tmp_path, "spu-1") == first
    clock.ms += 10 * DAY_MS
    secured(tmp_path, clock).spu_settings(1)
    renewed = certificate(tmp_path, "spu-1")
    assert renewed != first
    secured(tmp_path, clock, ("localhost", "192.0.2.7")).spu_settings(1)
    assert certificate(tmp_path, "spu-1") != renewed
    authorities = {certificate_facts(each)[1].fingerprint for each in (first, certificate(tmp_path, "spu-1"))}
    assert len(authorities) == 1


def test_only_the_owner_reads_what_is_secret(tmp_path: Path) -> None:
    cluster = secured(tmp_path)
    cluster.sc_settings()
    cluster.new_password()
    found = {each.name: stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "security").iterdir()}
    assert found == dict.fromkeys(("ca.pem", "ca-key.pem", "sc.pem", "client.properties"), 0o600)


def test_the_password_is_saved_for_commands(tmp_path: Path) -> None:
    cluster = secured(tmp_path)
    assert cluster.saved_password() is None
    password = cluster.new_password()
    assert len(password) == 24
    assert cluster.saved_password() == password
    assert f"ssl.truststore.location={tmp_path}/security/ca.pem" in Path(cluster.client_config).read_text()


def test_a_start_that_ended_early_is_made_complete(tmp_path: Path) -> None:
    (tmp_path / "security").mkdir()
    (tmp_path / "security" / "ca-key.pem").write_bytes(b"half")
    (tmp_path / "security" / "ca.pem.new").write_bytes(b"half")
    secured(tmp_path).sc_settings()
    assert len(certificate_facts(certificate(tmp_path, "sc"))) == 2


@pytest.mark.parametrize("name", ["listener.security.protocol.map", "listener.name.public.ssl.keystore.location"])
def test_settings_that_the_command_chooses_are_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}: `tailrace up --secure` chooses it"):
        check_given([name])
    check_given(["sasl.enabled.mechanisms", "log.retention.ms"])


def test_certificates_have_the_hosts_that_clients_are_told() -> None:
    listener = ListenerSettings("PUBLIC", Address("0.0.0.0", 9092), Address("broker.example", 9092))
    hosts = hosts_of([listener])
    assert {"localhost", "127.0.0.1", "::1", "broker.example"} <= set(hosts)
    assert "0.0.0.0" not in hosts
