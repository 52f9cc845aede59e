"""The numbers are those of Kafka's ControllerMutationQuotaTest: 2 changes a second, saved up for 10 seconds."""

from tailrace.protocol.error_codes import ErrorCode
from tailrace.security.quotas.quota_levels import Scope
from tailrace.security.quotas.quota_meters import BucketMeter
from tailrace.security.quotas.quota_window import QuotaWindow
from tailrace.server.throttling.request_mutations import RequestMutations


class _Time:
    now_ms = 1000.0

    def __call__(self) -> float:
        return self.now_ms


def _meter() -> BucketMeter:
    return BucketMeter("controller_mutation_rate", Scope("alice", ""), 2, QuotaWindow(10, 1000))


def test_a_strict_quota_refuses_what_comes_after_it_is_used_up() -> None:
    time, meter = _Time(), _meter()
    mutations = RequestMutations(meter, True, time)
    assert mutations.take(30) is None
    assert mutations.throttle_ms == 0
    refusal = mutations.take(30)
    assert refusal is not None and refusal.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert mutations.throttle_ms == 5000
    time.now_ms += 2000
    assert mutations.throttle_ms == 3000
    time.now_ms += 3000
    again = RequestMutations(meter, True, time)
    assert again.take(30) is None
    assert again.throttle_ms == 0


def test_a_permissive_quota_allows_everything_and_throttles_after_it() -> None:
    mutations = RequestMutations(_meter(), False, _Time())
    assert mutations.take(30) is None
    assert mutations.take(30) is None
    assert mutations.throttle_ms == 20_000


def test_changes_that_were_not_made_do_not_count() -> None:
    mutations = RequestMutations(_meter(), False, _Time())
    mutations.take(60)
    mutations.give_back(40)
    assert mutations.throttle_ms == 0
    strict = RequestMutations(_meter(), True, _Time())
    strict.take(60)
    strict.give_back(60)
    assert strict.take(20) is None
