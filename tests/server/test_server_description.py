import platform
import re
import tomllib
from pathlib import Path

from simulation.files import SimulatedFiles
from spus import SteadyClock

from tailrace import __version__
from tailrace.protocol.internal.describe_server import ServerCertificate, ServerListener
from tailrace.runtime.network import Address
from tailrace.security.certificates.certificate_facts import CertificateFacts
from tailrace.server.encryption.certificate_watch import ListenerCertificate
from tailrace.server.server_description import LIBRARIES, describe_server


def test_a_server_describes_its_clock_versions_addresses_and_machine() -> None:
    files, clock = SimulatedFiles(), SteadyClock()
    files.make_directories("/data")
    described = describe_server(7, "cluster", [("PUBLIC", Address("0.0.0.0", 9092))], "/data", files, clock)
    assert (described.spu_id, described.cluster_id, described.now_ms) == (7, "cluster", clock.now_ms())
    assert (described.software_version, described.python_version) == (__version__, platform.python_version())
    assert {each.name for each in described.libraries} == set(LIBRARIES)
    assert described.listeners == [ServerListener("PUBLIC", "0.0.0.0", 9092)]
    assert (described.disk_bytes, described.disk_free_bytes) == files.free_bytes("/data")
    assert 0 < described.memory_used < described.memory_max
    assert described.storage_max == -1


def test_every_dependency_of_servers_is_described() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    required = {re.split("[<>=~ ]", each)[0] for each in project["dependencies"]}
    assert required - set(LIBRARIES) == {"rich", "shtab"}, "only the command line needs these"


def test_certificates_are_described_by_listener() -> None:
    facts = CertificateFacts("name", "issuer", (), True, 1, 2, "", "")
    given = [ListenerCertificate("PUBLIC", facts)]
    described = describe_server(-1, "cluster", [], "", SimulatedFiles(), SteadyClock(), given)
    assert described.certificates == [ServerCertificate("PUBLIC", "name", True, 2)]


def test_a_server_without_files_has_no_disk() -> None:
    described = describe_server(-1, "cluster", [], "", SimulatedFiles(), SteadyClock())
    assert (described.data_directory, described.disk_bytes, described.disk_free_bytes) == ("", -1, -1)
