from typing import Any

import pytest
import trio
from authorized_spu import authorized_spu
from hosts import request_of
from quota_samples import alter, quota
from simulation.client import WireClient
from spus import ADDRESS, batch, running_spu

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.codec.headers import response_encoder
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_acls import DescribeAclsRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tailrace.security.identity.principal import USER, Principal
from tailrace.security.records.quota_record import QuotaRecord
from tailrace.server.request_context import ClientIdentity, RequestContext
from tailrace.server.throttling.connection_throttle import ConnectionThrottle
from tailrace.server.throttling.measured_request import MeasuredRequest
from tailrace.server.throttling.server_quotas import ServerQuotas
from tailrace.server.throttling.throttle_metrics import ThrottleMetrics

PRODUCE = API_TABLE[ApiKey.PRODUCE]


class _Nothing:
    """No requests behind the one that is being handled."""

    def next_request(self) -> memoryview | None:
        return None

    def put_back(self, request: memoryview) -> None:
        raise AssertionError("nothing was taken")


class _Connection:
    def __init__(self, *records: QuotaRecord) -> None:
        self.cluster = Cluster()
        for record in records:
            self.cluster.put_security(record)
        self.quotas = ServerQuotas.of_server(self.cluster, BrokerConfigs({}), ThrottleMetrics())
        self.client = ClientIdentity("somewhere")
        self.throttle = ConnectionThrottle(self.quotas, self.client)

    def measure(self, client_id: str | None) -> MeasuredRequest | None:
        return self.throttle.measure(PRODUCE, 11, client_id, 1000, response_encoder(PRODUCE, 11))


async def test_a_client_is_unknown_until_its_first_request() -> None:
    connection = _Connection(quota({"producer_byte_rate": 1.0}, client_id="app"))
    throttle = connection.throttle
    assert not throttle.is_known
    assert connection.measure("other") is None
    assert throttle.is_known and throttle.is_from("other") and not throttle.is_from("app")
    assert not throttle.limits_produce
    assert connection.measure("app") is not None
    assert throttle.is_from("app") and throttle.limits_produce


async def test_a_new_quota_applies_to_connections_that_exist() -> None:
    connection = _Connection()
    assert connection.measure("app") is None
    connection.cluster.put_security(quota({"producer_byte_rate": 1.0}, client_id="app"))
    assert not connection.throttle.is_known
    assert connection.measure("app") is not None
    assert connection.throttle.limits_produce


async def test_a_client_that_logs_in_gets_the_quotas_of_its_user() -> None:
    connection = _Connection(quota({"producer_byte_rate": 1.0}, user="alice"))
    assert connection.measure("app") is None
    connection.client.principal = Principal(USER, "alice")
    assert not connection.throttle.is_known
    assert connection.measure("app") is not None


async def test_produce_requests_are_counted_if_they_are_within_the_quota_and_their_time_does_not_matter() -> None:
    byte_rate = {"producer_byte_rate": 100.0}
    for limits, is_counted in (
        (byte_rate, True),
        ({"consumer_byte_rate": 1.0}, False),
        (byte_rate | {"request_percentage": 1000.0}, False),
    ):
        connection = _Connection(quota(limits, client_id="app"))
        connection.measure("app")
        assert (connection.throttle.count(_Nothing(), 1000) is not None) == is_counted
        assert connection.throttle.count(_Nothing(), 1001) is None
        assert connection.throttle.limits_produce == (limits != {"consumer_byte_rate": 1.0})


async def test_a_throttled_connection_is_muted_until_its_time_is_over(autojump_clock: trio.testing.MockClock) -> None:
    connection = _Connection(quota({"producer_byte_rate": 10.0}, client_id="app"))
    measured = connection.measure("app")
    assert measured is not None
    measured.end_without_response()
    throttle = connection.throttle
    assert throttle.is_muted
    assert throttle.muted_until == pytest.approx(trio.current_time() + 90)
    with throttle.waiting() as is_over:
        assert connection.quotas.metrics.muted_connections == 1
        assert not is_over()
        await trio.sleep_until(throttle.muted_until)
        assert is_over()
    assert not throttle.is_muted
    assert connection.quotas.metrics.muted_connections == 0


async def test_changes_have_no_bound_without_a_quota_on_them() -> None:
    connection = _Connection(quota({"producer_byte_rate": 10.0}, client_id="app"))
    connection.measure("app")
    assert connection.throttle.mutations(ApiKey.CREATE_TOPICS, 7, "app") is None
    connection.cluster.put_security(quota({"controller_mutation_rate": 10.0}, client_id="app"))
    connection.measure("app")
    assert connection.throttle.mutations(ApiKey.CREATE_TOPICS, 7, "app") is not None


class _Handled:
    """A produce request of a client with quotas, whose handler returns what a test says."""

    def __init__(self, reply: object) -> None:
        self.connection = _Connection(quota({"producer_byte_rate": 10.0}, client_id="app"))
        self.measured = self.connection.measure("app")
        assert self.measured is not None
        self.context = request_of(ApiKey.PRODUCE, 11)
        self.context._encode = self.measured.encode_throttled

        async def respond_nothing_later() -> None:
            self.context.respond_nothing()

        def handle(context: RequestContext, request: object) -> Any:
            if reply is NO_RESPONSE:
                context.respond_nothing()
                return None
            return respond_nothing_later() if reply is NO_RESPONSE_LATER else reply

        self.rare = self.connection.throttle.handle(self.context, self.measured, handle, "request")


NO_RESPONSE = object()
NO_RESPONSE_LATER = object()


async def test_a_measured_request_is_answered_at_once_and_mutes_the_connection() -> None:
    handled = _Handled(ProduceResponse())
    assert handled.rare is None
    assert handled.context.parts
    assert handled.context.meter is handled.measured
    assert handled.connection.throttle.is_muted


async def test_a_produce_request_without_a_response_counts_too() -> None:
    handled = _Handled(NO_RESPONSE)
    assert handled.rare is None
    assert handled.context.parts == ()
    assert handled.connection.throttle.is_muted


async def test_rare_work_without_a_response_counts_when_it_is_done() -> None:
    handled = _Handled(NO_RESPONSE_LATER)
    assert handled.rare is not None
    assert not handled.connection.throttle.is_muted
    assert await handled.rare is None
    assert handled.context.parts == ()
    assert handled.connection.throttle.is_muted


async def test_a_request_that_waits_or_is_rare_work_is_not_answered_yet() -> None:
    async def work() -> ProduceResponse:
        return ProduceResponse()

    handled = _Handled(work())
    assert handled.rare is not None
    waiting = _Handled(None)
    assert waiting.rare is None
    for each in (handled, waiting):
        assert each.context.parts is None
        assert not each.connection.throttle.is_muted
    waiting.context.respond(await handled.rare)
    assert waiting.connection.throttle.is_muted


# an SPU that takes records


async def test_a_producer_is_throttled_at_the_same_request_whether_its_requests_arrive_together_or_not(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Small requests that arrive together are appended together, but only within the quota."""
    async with running_spu() as running:
        await running.create("t", 1)
        await alter(await running.client(), quota({"producer_byte_rate": 500.0}, client_id=None))
        throttled: list[tuple[int, int]] = []
        for at_once in (1, 7, 100):
            client = WireClient(await running.world.network.connect(ADDRESS), f"client {at_once}".ljust(10))
            topic = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch(b"x"))])
            request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
            count = throttle_ms = 0
            while not throttle_ms:
                sent = b"".join(client.encode(ApiKey.PRODUCE, 9, request) for _ in range(at_once))
                await client.send(sent)
                for _ in range(at_once):
                    response = await client.response()
                    assert response.responses[0].partition_responses[0].error_code == 0
                    count += not throttle_ms
                    throttle_ms = throttle_ms or response.throttle_time_ms
            throttled.append((count, throttle_ms))
        size = len(sent) // at_once - 4
        assert throttled == [(5000 // size + 1, throttled[0][1])] * 3


# an SPU on the real clock, as in Kafka's RequestQuotaTest

EXEMPT = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.WRITE_TXN_MARKERS}
WAITING = {ApiKey.TXN_OFFSET_COMMIT}
"""The APIs that wait for other servers; `test_measured_request` has all APIs."""


async def test_a_client_of_every_api_is_throttled_for_its_time() -> None:
    async with running_spu() as running:
        await alter(await running.client(), quota({"request_percentage": 0.0001}, client_id=None))
        for key, api in API_TABLE.items():
            if key in WAITING:
                continue
            client = WireClient(await running.world.network.connect(ADDRESS), f"client of {api.name}")
            request = ProduceRequest(acks=1) if key == ApiKey.PRODUCE else api.request()
            throttle_ms = 0
            for _ in range(3 if key in EXEMPT else 1000):
                response = await client.request(api.key, api.max_version, request)
                throttle_ms = getattr(response, "throttle_time_ms", 0)
                if throttle_ms:
                    break
            assert (throttle_ms > 0) == (key not in EXEMPT), api.name
        text = await running.scraped()
        assert 'tailrace_throttled_responses_total{client_id="client of Fetch",quota="request_percentage"' in text


async def test_a_client_without_permission_is_throttled_as_well() -> None:
    """RequestQuotaTest: testUnauthorizedThrottle"""
    async with authorized_spu() as authorized:
        authorized.spu.cluster.put_security(quota({"request_percentage": 0.0001}, client_id=None))
        client = await authorized.client()
        request = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
        throttle_ms = 0
        while not throttle_ms:
            response = await client.request(ApiKey.DESCRIBE_ACLS, 3, request)
            assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            throttle_ms = response.throttle_time_ms
