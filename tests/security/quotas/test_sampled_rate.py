"""The numbers of the first test are those of Kafka's ClientQuotaManagerTest."""

import pytest

from tailrace.security.quotas.quota_window import QuotaWindow
from tailrace.security.quotas.sampled_rate import SampledRate

LIMIT = 500


def test_a_spike_is_throttled_until_the_average_is_within_the_limit_and_no_longer_than_the_window() -> None:
    rate, now_ms = SampledRate(QuotaWindow()), 1_000_000
    for _ in range(10):
        rate.record(400, now_ms)
        assert rate.throttle_ms(LIMIT, now_ms) == 0
        now_ms += 1000
    now_ms += 500
    rate.record(2300, now_ms)
    # 6300 bytes in 10.5 s are 600 bytes a second; waiting 2.1 s more makes them 500
    assert rate.rate(now_ms) == 600
    assert rate.throttle_ms(LIMIT, now_ms) == 2100
    now_ms += 2100
    for _ in range(10):
        rate.record(400, now_ms)
        now_ms += 1000
    assert rate.throttle_ms(LIMIT, now_ms) == 0


def test_a_single_event_is_averaged_over_the_window() -> None:
    rate = SampledRate(QuotaWindow(11, 1000))
    rate.record(10_000, 5000)
    assert rate.rate(5000) == 1000
    assert rate.rate(5500) == pytest.approx(10_000 / 10.5)


def test_what_is_taken_back_was_never_recorded() -> None:
    rate = SampledRate(QuotaWindow())
    rate.record(10_000, 0)
    rate.record(-10_000, 0)
    assert rate.rate(0) == 0
    assert rate.throttle_ms(1, 0) == 0


def test_a_sample_counts_until_its_last_event_has_left_the_window() -> None:
    rate = SampledRate(QuotaWindow(2, 1000))
    rate.record(100, 0)
    rate.record(100, 900)
    assert rate.rate(2800) > 0
    assert not rate.is_idle(2899)
    assert rate.rate(2900) == 0
    assert rate.is_idle(2900)


def test_the_number_of_samples_is_bounded() -> None:
    rate = SampledRate(QuotaWindow(3, 10))
    for now_ms in range(0, 10_000, 10):
        rate.record(1, now_ms)
    assert rate.rate(9990) == pytest.approx(100, rel=0.5)


def test_a_rate_without_events_is_zero_and_idle() -> None:
    rate = SampledRate(QuotaWindow())
    assert rate.rate(7) == 0
    assert rate.is_idle(7)


def test_a_window_of_one_sample_divides_by_at_least_a_millisecond() -> None:
    rate = SampledRate(QuotaWindow(1, 1000))
    rate.record(5, 100)
    assert rate.rate(100) == 5000


def test_what_there_is_room_for_is_not_throttled_and_a_little_more_is() -> None:
    rate, now_ms = SampledRate(QuotaWindow(11, 1000)), 5000.0
    for step in range(200):
        room = rate.room(LIMIT, now_ms)
        if room > 0:
            rate.record(room - 0.001, now_ms)
            assert rate.throttle_ms(LIMIT, now_ms) == 0
            rate.record(100 if step % 2 else 0.002, now_ms)
            assert rate.rate(now_ms) > LIMIT
        assert rate.room(LIMIT, now_ms) < 0
        now_ms += 137 + step
