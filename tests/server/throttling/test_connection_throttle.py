import pytest
import trio
from quota_samples import alter, quota
from simulation.client import WireClient
from spus import ADDRESS, running_spu

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.codec.headers import response_encoder
from tailrace.protocol.messages.produce import ProduceRequest
from tailrace.security.identity.principal import USER, Principal
from tailrace.security.records.quota_record import QuotaRecord
from tailrace.server.request_context import ClientIdentity
from tailrace.server.throttling.connection_throttle import ConnectionThrottle
from tailrace.server.throttling.measured_request import MeasuredRequest
from tailrace.server.throttling.server_quotas import ServerQuotas
from tailrace.server.throttling.throttle_metrics import ThrottleMetrics

PRODUCE = API_TABLE[ApiKey.PRODUCE]


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
    assert not connection.throttle.is_measured()
    assert connection.measure("other") is None
    assert not connection.throttle.is_measured()
    assert connection.measure("app") is not None
    assert connection.throttle.is_measured()


async def test_a_new_quota_applies_to_connections_that_exist() -> None:
    connection = _Connection()
    assert connection.measure("app") is None
    connection.cluster.put_security(quota({"producer_byte_rate": 1.0}, client_id="app"))
    assert connection.throttle.is_measured()


async def test_a_client_that_logs_in_gets_the_quotas_of_its_user() -> None:
    connection = _Connection(quota({"producer_byte_rate": 1.0}, user="alice"))
    assert connection.measure("app") is None
    connection.client.principal = Principal(USER, "alice")
    assert connection.throttle.is_measured()


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
