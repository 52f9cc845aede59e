"""A lease expires only after this process has seen it unchanged for the whole duration."""

from tailrace.controller.key_value.kubernetes.lease_observer import LeaseObserver
from tailrace.controller.key_value.kubernetes.transaction_log import Lease

LEASE = Lease("one", 6.0)


def test_a_lease_expires_after_its_duration_without_a_renewal() -> None:
    observer = LeaseObserver()
    assert not observer.is_expired(LEASE, "1", 100.0)
    assert not observer.is_expired(LEASE, "1", 105.9)
    assert observer.is_expired(LEASE, "1", 106.0)


def test_a_renewal_starts_the_duration_again() -> None:
    observer = LeaseObserver()
    observer.is_expired(LEASE, "1", 100.0)
    assert not observer.is_expired(LEASE, "2", 106.0)
    assert not observer.is_expired(LEASE, "2", 111.9)
    assert observer.is_expired(LEASE, "2", 112.0)


def test_a_forgotten_lease_is_observed_from_the_start() -> None:
    observer = LeaseObserver()
    observer.is_expired(LEASE, "1", 100.0)
    observer.keep_only(set())
    assert not observer.is_expired(LEASE, "1", 106.0)
