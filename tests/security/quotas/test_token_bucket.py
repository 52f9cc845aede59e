"""The numbers of the first test are those of KIP-599."""

from tailrace.security.quotas.quota_window import QuotaWindow
from tailrace.security.quotas.token_bucket import TokenBucket


def test_a_burst_waits_only_until_the_debt_is_paid() -> None:
    bucket = TokenBucket(QuotaWindow(100, 1000))
    assert bucket.tokens(5, 0) == 500
    bucket.take(560, 5, 0)
    assert bucket.tokens(5, 0) == -60
    assert bucket.throttle_ms(5, 0) == 12_000
    assert bucket.throttle_ms(5, 4000) == 8000
    assert bucket.throttle_ms(5, 12_000) == 0


def test_the_bucket_holds_no_more_than_flows_in_during_the_window() -> None:
    bucket = TokenBucket(QuotaWindow(10, 1000))
    bucket.take(5, 2, 0)
    assert bucket.tokens(2, 1_000_000) == 20
    bucket.take(-1000, 2, 1_000_000)
    assert bucket.tokens(2, 1_000_000) == 20


def test_a_full_bucket_is_idle() -> None:
    bucket = TokenBucket(QuotaWindow(10, 1000))
    assert bucket.is_idle(2, 0)
    bucket.take(2, 2, 0)
    assert not bucket.is_idle(2, 500)
    assert bucket.is_idle(2, 1000)


def test_a_lower_limit_applies_to_the_tokens_that_are_there() -> None:
    bucket = TokenBucket(QuotaWindow(10, 1000))
    assert bucket.tokens(2, 0) == 20
    assert bucket.tokens(1, 0) == 10
