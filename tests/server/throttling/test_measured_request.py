"""Every API of the table is throttled, as in Kafka's RequestQuotaTest; here with a clock that a test moves."""

from typing import Any

import pytest
from quota_samples import quota

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.codec.compile import decode
from tailrace.protocol.codec.headers import response_encoder, response_header
from tailrace.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tailrace.protocol.messages.produce import ProduceResponse
from tailrace.security.identity.principal import ANONYMOUS
from tailrace.security.quotas.quota_levels import Scope
from tailrace.security.quotas.quota_window import QuotaWindow
from tailrace.server.throttling.measured_request import MeasuredRequest, has_throttle_time
from tailrace.server.throttling.server_quotas import ServerQuotas
from tailrace.server.throttling.throttle_metrics import ThrottleMetrics

EXEMPT = {ApiKey.WRITE_TXN_MARKERS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
NEWEST = [(api, api.max_version) for api in API_TABLE.values()]
OLDEST = [(api, api.min_version) for api in API_TABLE.values()]


class _Metrics(ThrottleMetrics):
    """Remembers which quotas throttled a client."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def on_throttled(self, quota: str, scope: Scope, throttle_ms: int) -> None:
        self.seen.append(quota)
        super().on_throttled(quota, scope, throttle_ms)


class _Client:
    """Sends requests of one client with quotas."""

    def __init__(self, **limits: float) -> None:
        self.now = 1000.0
        self.muted_ms: list[int] = []
        self.metrics = _Metrics()
        cluster = Cluster()
        if limits:
            cluster.put_security(quota(limits, client_id=None))
        self.quotas = ServerQuotas(cluster.security, QuotaWindow(), QuotaWindow(), self.metrics, lambda: self.now)

    def begin(self, api: Api, version: int, request_bytes: int = 100) -> MeasuredRequest:
        meters = self.quotas.find(ANONYMOUS, "app")
        assert meters is not None
        encode = response_encoder(api, version)
        return MeasuredRequest(self.quotas, meters, api, version, request_bytes, encode, self.muted_ms.append)

    def answered(self, api: Api, version: int, response: Any = None, *, busy_seconds: float = 0.0) -> Any:
        """Returns the response that a client reads, after the request kept the server busy."""
        request = self.begin(api, version)
        self.now += busy_seconds
        frame = b"".join(map(bytes, request.encode_throttled(7, response or api.response())))  # type: ignore[arg-type]
        header = response_header(api.key, version, 7)
        return decode(api.response, version, memoryview(frame), 4 + len(header), len(frame))


@pytest.mark.parametrize(("api", "version"), NEWEST, ids=lambda each: getattr(each, "name", None))
def test_every_api_is_throttled_for_its_time(api: Api, version: int) -> None:
    client = _Client(request_percentage=1)
    response = client.answered(api, version, busy_seconds=1.0)
    if api.key in EXEMPT:
        assert not client.muted_ms
    else:
        assert response.throttle_time_ms == 1000  # at most one sample of the window
        assert client.muted_ms == [1000]


@pytest.mark.parametrize(("api", "version"), OLDEST, ids=lambda each: getattr(each, "name", None))
def test_versions_without_the_field_are_throttled_as_well(api: Api, version: int) -> None:
    client = _Client(request_percentage=1)
    response = client.answered(api, version, busy_seconds=1.0)
    if api.key not in EXEMPT:
        assert client.muted_ms == [1000]
    if has_throttle_time(api, version):
        assert response.throttle_time_ms == 1000


def test_every_client_api_has_the_field_in_its_newest_version() -> None:
    assert {api.key for api, version in NEWEST if not has_throttle_time(api, version)} <= EXEMPT


@pytest.mark.parametrize(("api", "version"), NEWEST, ids=lambda each: getattr(each, "name", None))
def test_a_client_within_its_quotas_is_not_throttled(api: Api, version: int) -> None:
    client = _Client(request_percentage=2000, producer_byte_rate=1e9, consumer_byte_rate=1e9)
    response = client.answered(api, version, busy_seconds=0.001)
    assert getattr(response, "throttle_time_ms", 0) == 0
    assert not client.muted_ms


PRODUCE, FETCH = API_TABLE[ApiKey.PRODUCE], API_TABLE[ApiKey.FETCH]


def test_the_longer_time_wins_and_only_its_quota_is_counted() -> None:
    client = _Client(request_percentage=0.01, producer_byte_rate=1)
    response = client.answered(PRODUCE, 11, ProduceResponse(), busy_seconds=0.1)
    # 100 bytes in a window of 10.0 s are 10 a second, which is 9 times too much.
    assert response.throttle_time_ms == 90_000
    assert client.metrics.seen == ["producer_byte_rate"]
    other = _Client(request_percentage=0.01, producer_byte_rate=9.9)
    assert other.answered(PRODUCE, 11, ProduceResponse(), busy_seconds=0.1).throttle_time_ms == 1000
    assert other.metrics.seen == ["request_percentage"]


def test_a_request_without_a_response_counts_its_bytes_but_not_its_time() -> None:
    client = _Client(request_percentage=0.01, producer_byte_rate=1)
    request = client.begin(PRODUCE, 11)
    client.now += 1
    request.handled()
    request.end_without_response()
    assert client.metrics.seen == ["producer_byte_rate"]
    assert client.muted_ms == [90_000]
    within = _Client(request_percentage=0.01, producer_byte_rate=1000)
    request = within.begin(PRODUCE, 11)
    within.now += 1
    request.end_without_response()
    assert not within.muted_ms


def test_a_throttled_fetch_holds_its_records_back_and_does_not_count_them() -> None:
    client = _Client(consumer_byte_rate=100)
    first = client.begin(FETCH, 12)
    assert first.hold_back(1000) == 0
    data = PartitionData(partition_index=0, high_watermark=1, records=bytes(1000), aborted_transactions=None)
    first.encode_throttled(1, FetchResponse(responses=[FetchableTopicResponse("t", partitions=[data])]))
    second = client.begin(FETCH, 12)
    assert second.hold_back(1000) > 9000
    second.encode_throttled(2, FetchResponse())
    assert client.metrics.seen == ["consumer_byte_rate"]
    assert len(client.muted_ms) == 1
    meters = client.quotas.find(ANONYMOUS, "app")
    assert meters is not None and meters.fetched is not None
    assert meters.fetched.rate(client.quotas.now_ms()) < 110


def test_what_a_response_has_beside_its_records_counts_for_the_next_fetch() -> None:
    client = _Client(consumer_byte_rate=1)
    request = client.begin(FETCH, 12)
    assert request.hold_back(0) == 0
    request.encode_throttled(1, FetchResponse())
    assert client.begin(FETCH, 12).hold_back(0) > 0


def test_a_fetch_is_limited_to_what_the_window_allows() -> None:
    assert _Client(consumer_byte_rate=100).begin(FETCH, 12).bytes_max == 1000
    assert _Client(request_percentage=100).begin(FETCH, 12).bytes_max == 2**31 - 1
    assert _Client(consumer_byte_rate=2**62).begin(FETCH, 12).bytes_max == 2**31 - 1


def test_time_that_a_request_waits_does_not_count() -> None:
    client = _Client(request_percentage=1)
    request = client.begin(PRODUCE, 11)
    request.handled()
    client.now += 60
    request.encode_throttled(1, ProduceResponse())
    assert not client.muted_ms


def test_time_in_which_work_goes_on_counts() -> None:
    client = _Client(request_percentage=1)
    request = client.begin(PRODUCE, 11)
    request.handled()
    client.now += 1.0  # the request waits
    for _ in range(4):
        request.resumed()
        client.now += 0.05
        request.handled()
        client.now += 1.0
    request.encode_throttled(7, ProduceResponse())
    # 0.2 s in a window of 10.0 s are 2 %, which is twice too much.
    assert client.muted_ms == [1000]


def test_a_response_that_others_share_is_not_changed() -> None:
    shared, client = ProduceResponse(), _Client(producer_byte_rate=1)
    assert client.answered(PRODUCE, 11, shared).throttle_time_ms > 0
    assert shared.throttle_time_ms == 0


def test_the_time_that_the_controller_asks_for_is_kept() -> None:
    client = _Client(request_percentage=1, controller_mutation_rate=1)
    create = API_TABLE[ApiKey.CREATE_TOPICS]
    response = client.answered(create, 7, create.response(throttle_time_ms=5000), busy_seconds=1)
    assert response.throttle_time_ms == 5000
    assert client.muted_ms == [5000]
    assert client.metrics.seen == ["controller_mutation_rate"]
