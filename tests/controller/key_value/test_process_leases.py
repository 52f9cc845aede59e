"""Leases of keys: who holds which key, and until when."""

import math

import pytest

from tailrace.controller.key_value.interface import Entry, LeadershipLost
from tailrace.controller.key_value.process_leases import ProcessLeases

ENTRY = Entry("leader", b"", 3)


@pytest.fixture
def leases() -> ProcessLeases:
    leases = ProcessLeases()
    leases.grant(ENTRY, 5, now=100)
    return leases


def test_a_lease_ends_with_its_time(leases: ProcessLeases) -> None:
    assert leases.next_expiry() == 105
    assert leases.expired(104.9) == []
    assert leases.expired(105) == [("leader", 3)]


def test_a_renewal_counts_from_its_moment(leases: ProcessLeases) -> None:
    leases.renew(ENTRY, now=104)
    assert leases.next_expiry() == 109


@pytest.mark.parametrize(
    ("entry", "now"), [(ENTRY, 105.0), (Entry("leader", b"", 4), 101.0), (Entry("other", b"", 3), 101.0)]
)
def test_only_the_holder_of_an_unexpired_lease_can_renew_it(leases: ProcessLeases, entry: Entry, now: float) -> None:
    with pytest.raises(LeadershipLost, match=f"the lease of {entry.key} has expired"):
        leases.renew(entry, now)


def test_a_key_without_a_lease_stays(leases: ProcessLeases) -> None:
    leases.forget("leader")
    leases.forget("leader")
    assert leases.next_expiry() == math.inf
    assert leases.expired(1000) == []
