import pytest

from tailrace.broker.replicas.append_samples import (
    DELIVERY_BUCKETS_SECONDS,
    SAMPLES_MAX,
    SPACING_SECONDS,
    AppendSamples,
    DeliveryLatencies,
)


def test_a_fetch_finds_the_samples_in_its_range() -> None:
    samples = AppendSamples()
    assert samples.newest == -1
    for offset, now in ((3, 10.0), (7, 11.0), (9, 12.0)):
        samples.note(offset, now)
    assert samples.newest == 9
    assert list(samples.appended_at(4, 9)) == [11.0]
    assert list(samples.appended_at(3, 10)) == [10.0, 11.0, 12.0]


def test_samples_are_spaced_and_bounded() -> None:
    samples = AppendSamples()
    for number in range(1000):
        samples.note(number, number * SPACING_SECONDS / 4)
    assert samples.newest == 996
    assert len(list(samples.appended_at(0, 1000))) == SAMPLES_MAX


def test_samples_of_truncated_records_are_forgotten() -> None:
    samples = AppendSamples()
    samples.note(5, 10.0)
    samples.note(9, 11.0)
    samples.note(7, 12.0)
    assert list(samples.appended_at(0, 100)) == [10.0, 12.0]


def test_latencies_are_counted_in_buckets() -> None:
    latencies = DeliveryLatencies()
    for seconds in (0.0001, 0.003, 0.003, 100.0):
        latencies.count(seconds)
    assert latencies.buckets[0] == 1
    assert latencies.buckets[DELIVERY_BUCKETS_SECONDS.index(0.005)] == 2
    assert latencies.buckets[-1] == 1
    assert latencies.seconds == pytest.approx(100.0061)
