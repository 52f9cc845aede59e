from tailrace.security.quotas.quota_levels import Limit, QuotaLevels, Scope
from tailrace.security.quotas.quota_rules import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from tailrace.security.records.quota_record import QuotaRecord

ALICE, ANY_USER = ("user", "alice"), ("user", None)
APP, ANY_CLIENT = ("client-id", "app"), ("client-id", None)
LEVELS = (
    ((ALICE, APP), Scope("alice", "app")),
    ((ALICE, ANY_CLIENT), Scope("alice", "app")),
    ((ALICE,), Scope("alice", "")),
    ((ANY_USER, APP), Scope("alice", "app")),
    ((ANY_USER, ANY_CLIENT), Scope("alice", "app")),
    ((ANY_USER,), Scope("alice", "")),
    ((APP,), Scope("", "app")),
    ((ANY_CLIENT,), Scope("", "app")),
)
"""The entities of the eight levels, the strongest first, and who shares the quota of each."""


def _levels(*records: tuple[tuple[tuple[str, str | None], ...], float]) -> QuotaLevels:
    return QuotaLevels([QuotaRecord(entity, {PRODUCER_BYTE_RATE: value}) for entity, value in records])


def test_each_level_wins_over_all_that_follow() -> None:
    for first in range(len(LEVELS)):
        levels = _levels(*((entity, 100.0 + n) for n, (entity, _) in enumerate(LEVELS) if n >= first))
        assert levels.find(PRODUCER_BYTE_RATE, "alice", "app") == Limit(100.0 + first, LEVELS[first][1])


def test_other_clients_match_only_defaults() -> None:
    levels = _levels(*((entity, float(n + 1)) for n, (entity, _) in enumerate(LEVELS)))
    assert levels.find(PRODUCER_BYTE_RATE, "bob", "app") == Limit(4, Scope("bob", "app"))
    assert levels.find(PRODUCER_BYTE_RATE, "bob", "other") == Limit(5, Scope("bob", "other"))
    assert levels.find(PRODUCER_BYTE_RATE, "alice", "other") == Limit(2, Scope("alice", "other"))


def test_each_kind_of_limit_is_looked_up_for_itself() -> None:
    levels = QuotaLevels(
        [QuotaRecord((ALICE,), {PRODUCER_BYTE_RATE: 1.0}), QuotaRecord((ANY_CLIENT,), {CONSUMER_BYTE_RATE: 2.0})]
    )
    assert levels.find(PRODUCER_BYTE_RATE, "alice", "app") == Limit(1, Scope("alice", ""))
    assert levels.find(CONSUMER_BYTE_RATE, "alice", "app") == Limit(2, Scope("", "app"))
    assert levels.find(PRODUCER_BYTE_RATE, "bob", "app") is None


def test_a_client_that_is_named_like_kafkas_word_for_the_default_is_not_the_default() -> None:
    levels = _levels((((("client-id", "<default>")),), 1.0))
    assert levels.find(PRODUCER_BYTE_RATE, "alice", "app") is None
    assert levels.find(PRODUCER_BYTE_RATE, "alice", "<default>") is not None


def test_an_address_has_its_own_rate_or_the_default() -> None:
    own = QuotaRecord((("ip", "1.2.3.4"),), {"connection_creation_rate": 5.0})
    default = QuotaRecord((("ip", None),), {"connection_creation_rate": 2.0})
    levels = QuotaLevels([own, default])
    assert levels.limits_addresses and not levels.limits_clients
    assert levels.connection_rate("::ffff:1.2.3.4") == 5
    assert levels.connection_rate("4.3.2.1") == 2
    assert QuotaLevels([own]).connection_rate("4.3.2.1") is None


def test_without_quotas_nobody_is_limited() -> None:
    levels = QuotaLevels([])
    assert not levels.limits_clients and not levels.limits_addresses
    assert levels.find(PRODUCER_BYTE_RATE, "alice", "app") is None
    assert levels.connection_rate("1.2.3.4") is None
