from tailrace.trigger.membership.member_lease import lease_from


def test_a_lease_counts_from_before_the_heartbeat_was_sent_and_ends_before_the_session_does() -> None:
    lease = lease_from(100.0, session_timeout=10.0)
    assert lease.hand_out_until == 108.0
    assert lease.handle_until == 109.5
