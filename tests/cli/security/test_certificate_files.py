from simulation.files import SimulatedFiles

from tailrace.cli.security.certificate_files import CertificateFiles
from tailrace.security.certificates.certificate_making import Authority


def test_an_authority_is_found_again() -> None:
    files = CertificateFiles("/certificates/", SimulatedFiles())
    assert not files.has_authority
    files.save_authority(Authority(b"certificate", b"key"))
    assert files.has_authority
    assert files.authority() == Authority(b"certificate", b"key")
    files.save(files.path("a.pem"), b"old")
    files.save(files.path("a.pem"), b"new")
