"""What is shown of a certificate."""

import pytest
from certificates import UNKNOWN_KIND, WRONG_ADDRESS, malformed_authority

from tailrace.security.certificates.certificate_facts import DAY_MS, certificate_facts, readable_facts
from tailrace.security.certificates.certificate_making import CertificateError, make_authority, make_server_certificate

NOW = 1_800_000_000_000


def test_a_file_of_a_server_has_its_certificate_and_that_of_the_authority() -> None:
    authority = make_authority("Orders CA", NOW)
    server, above = certificate_facts(make_server_certificate(authority, "spu-1", ["localhost", "::1"], NOW, days=30))
    assert (server.name, server.issuer, server.hosts) == ("spu-1", "Orders CA", ("localhost", "::1"))
    assert not server.is_authority
    assert (above.name, above.issuer, above.hosts, above.is_authority) == ("Orders CA", "Orders CA", (), True)


def test_the_days_that_are_left_become_negative() -> None:
    authority = make_authority("Orders CA", NOW, days=2)
    (facts,) = certificate_facts(authority.certificate)
    assert [facts.days_left(NOW + days * DAY_MS) for days in (0, 1, 2, 3)] == [2, 1, 0, -1]


def test_a_file_without_a_certificate_is_refused() -> None:
    with pytest.raises(CertificateError, match="there is no certificate in PEM"):
        certificate_facts(b"-----BEGIN NOTHING-----")


NONSENSE = b"-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize("malformed", [malformed_authority(WRONG_ADDRESS), malformed_authority(UNKNOWN_KIND), NONSENSE])
def test_a_malformed_certificate_is_an_error_or_is_left_out(malformed: bytes) -> None:
    good = make_authority("Orders CA", NOW).certificate
    with pytest.raises(CertificateError, match="certificate 2 of the file cannot be read: "):
        certificate_facts(good + malformed)
    assert [each.name for each in readable_facts(malformed + b"text" + good + malformed)] == ["Orders CA"]
    assert readable_facts(malformed) == readable_facts(b"") == []
