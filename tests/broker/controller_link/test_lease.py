import math

from tailrace.broker.controller_link.lease import Lease


def test_the_lease_of_the_registration_does_not_make_sure_to_lead() -> None:
    lease = Lease()
    lease.begin(10)
    assert (lease.end, lease.last_end) == (-math.inf, 10)


def test_a_lost_connection_ends_the_lease_at_once_but_does_not_isolate() -> None:
    lease = Lease()
    lease.begin(10)
    lease.renew(11)
    assert (lease.end, lease.last_end) == (11, 11)
    lease.lose()
    assert (lease.end, lease.last_end) == (-math.inf, 11)
