"""Hosts in access rules."""

import pytest

from tailrace.security.acls.host_patterns import HostError, check_host, host_matches


@pytest.mark.parametrize(
    ("pattern", "host", "expected"),
    [
        ("*", "1.2.3.4", True),
        ("1.2.3.4", "1.2.3.4", True),
        ("1.2.3.4", "1.2.3.5", False),
        ("1.2.3.0/24", "1.2.3.200", True),
        ("1.2.3.0/24", "1.2.4.1", False),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("2001:db8::/32", "2001:db8:1::7", True),
        ("2001:db8::/32", "1.2.3.4", False),
        ("0.0.0.0/0", "::1", False),
        ("1.2.3.4", "::ffff:1.2.3.4", True),
        ("1.2.3.0/24", "::ffff:1.2.3.4", True),
        ("fe80::1", "fe80::1%eth0", True),
        ("a.example", "1.2.3.4", False),
        ("1.2.3.0/24", "", False),
        ("1.2.3.0/99", "1.2.3.4", False),
    ],
)
def test_a_pattern_has_its_addresses(pattern: str, host: str, expected: bool) -> None:
    assert host_matches(pattern, host) is expected


@pytest.mark.parametrize("pattern", ["", "1.2.3.4/33", "1.2.3.4/24", "x/8"])
def test_a_wrong_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(HostError):
        check_host(pattern)


@pytest.mark.parametrize("pattern", ["*", "1.2.3.4", "::1", "10.0.0.0/8", "a.example"])
def test_others_are_accepted(pattern: str) -> None:
    check_host(pattern)
