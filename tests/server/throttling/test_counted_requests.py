from tailrace.security.quotas.quota_levels import Scope
from tailrace.security.quotas.quota_meters import RateMeter
from tailrace.security.quotas.quota_rules import PRODUCER_BYTE_RATE
from tailrace.security.quotas.quota_window import QuotaWindow
from tailrace.server.throttling.counted_requests import CountedRequests


class _Arrived:
    """Requests of 10 bytes each."""

    def __init__(self, count: int) -> None:
        self.left = count

    def next_request(self) -> memoryview | None:
        if not self.left:
            return None
        self.left -= 1
        return memoryview(bytes(10))

    def put_back(self, request: memoryview) -> None:
        self.left += 1


def _counted(arrived: _Arrived, limit: float) -> tuple[CountedRequests, RateMeter]:
    meter = RateMeter(PRODUCER_BYTE_RATE, Scope("", "app"), limit, QuotaWindow(11, 1000))
    return CountedRequests(arrived, 10, meter, meter.room(0), 0), meter


def _recorded(meter: RateMeter) -> float:
    return meter.rate(0) * 10


def test_requests_are_handed_out_until_the_quota_is_used_up() -> None:
    arrived = _Arrived(9)
    counted, meter = _counted(arrived, 4.5)
    taken = 0
    while counted.next_request() is not None:
        taken += 1
    assert (taken, arrived.left) == (3, 6), "4 requests of 10 bytes are within 45 bytes in 10 seconds"
    assert _recorded(meter) == 0, "they count when they are handled"
    counted.record()
    assert _recorded(meter) == 40
    assert meter.throttle_ms(0) == 0


def test_a_request_that_is_put_back_does_not_count() -> None:
    arrived = _Arrived(2)
    counted, meter = _counted(arrived, 100)
    request = counted.next_request()
    assert request is not None
    counted.put_back(request)
    assert arrived.left == 2
    counted.record()
    assert _recorded(meter) == 10
