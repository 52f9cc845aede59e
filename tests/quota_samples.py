"""Makes quotas for tests."""

from collections.abc import Mapping, Sequence

from simulation.client import WireClient

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from tailrace.security.quotas.quota_rules import checked_entity
from tailrace.security.records.quota_record import QuotaRecord
from tailrace.server.throttling.server_quotas import ServerQuotas
from tailrace.server.throttling.throttle_metrics import ThrottleMetrics


def quota(values: Mapping[str, float], **entity: str | None) -> QuotaRecord:
    """Makes the quota of an entity, for example of `user="alice", client_id=None`."""
    return QuotaRecord(checked_entity([(kind.replace("_", "-"), name) for kind, name in entity.items()]), values)


def server_quotas(*records: QuotaRecord, configs: Mapping[str, str] | None = None) -> ServerQuotas:
    """Makes the quotas of a server, on the clock of the running test."""
    cluster = Cluster()
    for record in records:
        cluster.put_security(record)
    return ServerQuotas.of_server(cluster, BrokerConfigs(configs or {}), ThrottleMetrics())


def altering(record: QuotaRecord, removed: Sequence[str] = ()) -> EntryData:
    """Makes the part of a request that sets the limits of a quota, and removes others."""
    ops = [OpData(name, value) for name, value in record.values.items()]
    ops += [OpData(name, 0.0, remove=True) for name in removed]
    return EntryData([EntityData(*part) for part in record.entity], ops)


async def alter(
    client: WireClient,
    *records: QuotaRecord,
    removed: Sequence[str] = (),
    validate_only: bool = False,
    version: int = 1,
) -> list[int]:
    """Sets quotas through a server. Returns the error of each."""
    request = AlterClientQuotasRequest([altering(each, removed) for each in records], validate_only)
    response = await client.request(ApiKey.ALTER_CLIENT_QUOTAS, version, request)
    assert [each.entity for each in response.entries] == [each.entity for each in request.entries]
    assert all(bool(each.error_message) == bool(each.error_code) for each in response.entries)
    return [each.error_code for each in response.entries]
