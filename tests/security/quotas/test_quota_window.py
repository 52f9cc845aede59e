from tailrace.security.quotas.quota_window import QuotaWindow


def test_the_default_is_eleven_samples_of_a_second() -> None:
    assert QuotaWindow().span_ms == 11_000


def test_a_window_spans_all_its_samples() -> None:
    assert QuotaWindow(4, 500).span_ms == 2000
