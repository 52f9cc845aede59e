"""The quotas of one server: which clients have one, and how much of it they have used here."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import trio

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.security.identity.principal import USER, Principal
from tailrace.security.quotas.quota_levels import QuotaLevels
from tailrace.security.quotas.quota_meters import BucketMeter, QuotaMeters, RateMeter
from tailrace.security.quotas.quota_rules import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from tailrace.security.quotas.quota_window import QuotaWindow
from tailrace.security.records.security_records import QUOTA
from tailrace.security.records.security_tables import SecurityTables

from .request_mutations import RequestMutations
from .throttle_metrics import ThrottleMetrics

_NEVER = 1 << 15
STRICT_FROM: Mapping[int, int] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.METADATA: _NEVER,  # it creates topics, and clients do not expect the error
    InternalApiKey.CREATE_OBJECT: 0,
    InternalApiKey.DELETE_OBJECT: 0,
}
"""The first versions in which clients expect that a change is refused because of their quota."""


class ClientMeters(NamedTuple):
    """The meters of one client. Each is None if the client has no such quota."""

    produced: RateMeter | None
    fetched: RateMeter | None
    time: RateMeter | None
    mutations: BucketMeter | None

    @property
    def measures_requests(self) -> bool:
        """Whether there is anything to measure."""
        return any(each is not None for each in self)


class ServerQuotas:
    """The quotas and meters of one server."""

    def __init__(
        self,
        tables: SecurityTables,
        window: QuotaWindow,
        mutation_window: QuotaWindow,
        metrics: ThrottleMetrics,
        now: Callable[[], float],
    ) -> None:
        """`now` returns the time in seconds."""
        self._tables = tables
        self.now = now
        self.window = window
        self.metrics = metrics
        self.meters = QuotaMeters(window, mutation_window)
        self.levels = QuotaLevels(())
        self.enabled = False
        """Whether any user or client id has a quota. Connections ask this once per turn."""
        self._changes = 0
        self._follow()
        tables.on_changed.append(self._on_changed)

    @classmethod
    def of_server(cls, cluster: Cluster, configs: BrokerConfigs, metrics: ThrottleMetrics) -> "ServerQuotas":
        """Makes the quotas of a server that has a mirror of the cluster, with Trio's clock."""
        now = trio.lowlevel.current_clock().current_time
        settings = configs.settings
        return cls(cluster.security, settings.quota_window, settings.mutation_window, metrics, now)

    @property
    def generation(self) -> int:
        """A number that rises when clients have to look up their meters again."""
        return self._changes + self.meters.sweeps

    def now_ms(self) -> float:
        """Returns the time in milliseconds."""
        return self.now() * 1000

    def find(self, principal: Principal, client_id: str | None) -> ClientMeters | None:
        """Returns the meters of a client; None if it has no quota. Our own servers never have one."""
        if not self.enabled or principal.kind != USER:
            return None
        user, client_id = principal.name, client_id or ""
        now_ms = self.now_ms()

        def meter(quota: str) -> RateMeter | None:
            limit = self.levels.find(quota, user, client_id)
            return None if limit is None else self.meters.rate_meter(quota, limit, now_ms)

        found = ClientMeters(
            meter(PRODUCER_BYTE_RATE),
            meter(CONSUMER_BYTE_RATE),
            meter(REQUEST_PERCENTAGE),
            self._bucket(user, client_id, now_ms),
        )
        return found if found.measures_requests else None

    def mutations(
        self, principal: Principal, client_id: str | None, api_key: int, api_version: int
    ) -> RequestMutations | None:
        """Returns what a request may change; None if the API or the client has no such quota."""
        strict_from = STRICT_FROM.get(api_key) if self.enabled and principal.kind == USER else None
        if strict_from is None:
            return None
        bucket = self._bucket(principal.name, client_id or "", self.now_ms())
        return None if bucket is None else RequestMutations(bucket, api_version >= strict_from, self.now_ms)

    def _bucket(self, user: str, client_id: str, now_ms: float) -> BucketMeter | None:
        limit = self.levels.find(CONTROLLER_MUTATION_RATE, user, client_id)
        return None if limit is None else self.meters.bucket_meter(limit, now_ms)

    def _on_changed(self, kind: str) -> None:
        if kind == QUOTA:
            self._follow()

    def _follow(self) -> None:
        self.levels = QuotaLevels(self._tables.quotas.values())
        self.enabled = self.levels.limits_clients
        self._changes += 1
