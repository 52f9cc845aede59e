"""What is shown of a certificate."""

import pytest

from tailrace.security.certificates.certificate_facts import DAY_MS, certificate_facts
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
