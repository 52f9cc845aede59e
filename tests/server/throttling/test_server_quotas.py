from enum import IntEnum

import pytest
from quota_samples import quota, server_quotas

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.security.identity.principal import ANONYMOUS, SERVER, USER, Principal
from tailrace.security.quotas.quota_window import QuotaWindow
from tailrace.security.records.security_records import QUOTA, key_of
from tailrace.server.throttling.server_quotas import ServerQuotas
from tailrace.server.throttling.throttle_metrics import ThrottleMetrics

ALICE = Principal(USER, "alice")


async def test_without_quotas_nothing_is_measured() -> None:
    quotas = server_quotas(quota({"connection_creation_rate": 1.0}, ip=None))
    assert not quotas.enabled
    assert quotas.find(ALICE, "app") is None


async def test_a_client_without_a_quota_is_not_measured_beside_one_with_a_quota() -> None:
    quotas = server_quotas(quota({"producer_byte_rate": 5.0}, user="alice"))
    assert quotas.enabled
    assert quotas.find(ANONYMOUS, "app") is None
    meters = quotas.find(ALICE, "app")
    assert meters is not None
    assert meters.produced is not None and meters.produced.limit == 5
    assert meters[1:] == (None, None, None)


async def test_clients_with_a_common_quota_share_its_meter() -> None:
    quotas = server_quotas(quota({"producer_byte_rate": 5.0}, user="alice"))
    first, second = quotas.find(ALICE, "app"), quotas.find(ALICE, None)
    assert first is not None and second is not None
    assert first.produced is second.produced


async def test_our_own_servers_have_no_quota() -> None:
    quotas = server_quotas(quota({"producer_byte_rate": 5.0}, user=None))
    assert quotas.find(Principal(SERVER, "alice"), "app") is None


async def test_a_client_without_a_client_id_has_the_default_of_client_ids() -> None:
    quotas = server_quotas(quota({"producer_byte_rate": 5.0}, client_id=None))
    assert quotas.find(ANONYMOUS, None) is not None


@pytest.mark.parametrize("api", [ApiKey.LIST_OFFSETS, InternalApiKey.UNDELETE_TOPIC])
async def test_apis_that_do_not_count_as_changes_have_no_bound(api: IntEnum) -> None:
    """Among them are the APIs of our own commands, whose keys Kafka does not know."""
    quotas = server_quotas(quota({"controller_mutation_rate": 5.0}, user="alice"))
    assert quotas.mutations(ALICE, "app", api, 0) is None
    assert quotas.mutations(ALICE, "app", ApiKey.CREATE_TOPICS, 7) is not None


async def test_changes_of_quotas_are_followed() -> None:
    cluster = Cluster()
    quotas = ServerQuotas.of_server(cluster, BrokerConfigs({}), ThrottleMetrics())
    before = quotas.generation
    record = quota({"producer_byte_rate": 5.0}, user="alice")
    cluster.put_security(record)
    assert quotas.enabled and quotas.generation > before
    cluster.remove_security(QUOTA, key_of(record))
    assert not quotas.enabled


async def test_the_windows_are_settings() -> None:
    quotas = server_quotas(configs={"quota.window.num": "3", "quota.window.size.seconds": "2"})
    assert quotas.window == QuotaWindow(3, 2000)


@pytest.mark.parametrize(
    ("api_key", "version", "is_strict"),
    [
        (ApiKey.CREATE_TOPICS, 6, True),
        (ApiKey.CREATE_TOPICS, 5, False),
        (ApiKey.DELETE_TOPICS, 5, True),
        (ApiKey.DELETE_TOPICS, 4, False),
        (ApiKey.CREATE_PARTITIONS, 3, True),
        (ApiKey.CREATE_PARTITIONS, 2, False),
        (ApiKey.METADATA, 13, False),
        (InternalApiKey.CREATE_OBJECT, 0, True),
        (InternalApiKey.DELETE_OBJECT, 0, True),
    ],
)
async def test_changes_are_refused_in_versions_that_know_the_error(
    api_key: IntEnum, version: int, is_strict: bool
) -> None:
    quotas = server_quotas(quota({"controller_mutation_rate": 1.0}, user=None))
    mutations = quotas.mutations(ALICE, "app", api_key, version)
    assert mutations is not None
    assert mutations.take(100) is None
    assert (mutations.take(1) is not None) == is_strict


async def test_other_requests_change_as_much_as_they_like() -> None:
    quotas = server_quotas(quota({"controller_mutation_rate": 1.0}, user=None))
    assert quotas.mutations(ALICE, "app", ApiKey.FETCH, 1) is None
    assert server_quotas().mutations(ALICE, "app", ApiKey.CREATE_TOPICS, 7) is None
