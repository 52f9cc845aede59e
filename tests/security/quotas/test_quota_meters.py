"""The cases are those of Kafka's ClientQuotaManagerTest, with its numbers."""

import pytest

from tailrace.security.quotas.quota_levels import Limit, QuotaLevels, Scope
from tailrace.security.quotas.quota_meters import OTHER, SWEEP_MS, QuotaMeters
from tailrace.security.quotas.quota_rules import PRODUCER_BYTE_RATE, checked_entity
from tailrace.security.quotas.quota_window import QuotaWindow
from tailrace.security.records.quota_record import QuotaEntity, QuotaRecord

SAMPLES = 11
NOW_MS = 1_000_000.0


class _Quotas:
    """Produce quotas that change, and the meters of the clients."""

    def __init__(self) -> None:
        self._records: dict[QuotaEntity, QuotaRecord] = {}
        self._meters = QuotaMeters(QuotaWindow(SAMPLES, 1000))

    def set(self, value: float | None, *, user: str | None = "", client_id: str | None = "") -> None:
        """Sets or removes a quota. A name of None is the default, and an empty one stands for no part."""
        parts = [(kind, name) for kind, name in (("user", user), ("client-id", client_id)) if name != ""]
        entity = checked_entity(parts)
        if value is None:
            del self._records[entity]
        else:
            self._records[entity] = QuotaRecord(entity, {PRODUCER_BYTE_RATE: value})

    def check(self, user: str, client_id: str, limit: float | None, amount: float, *, throttled: bool) -> None:
        """Records an amount for each sample, and checks the limit and whether the client is throttled."""
        found = QuotaLevels(self._records.values()).find(PRODUCER_BYTE_RATE, user, client_id)
        assert (None if found is None else found.value) == limit
        if found is None:
            assert not throttled
            return
        meter = self._meters.rate_meter(PRODUCER_BYTE_RATE, found, NOW_MS)
        meter.record(amount * SAMPLES, NOW_MS)
        assert (meter.throttle_ms(NOW_MS) > 0) == throttled


@pytest.mark.parametrize(
    ("own", "default"),
    [
        ({"client_id": "p1"}, {"client_id": None}),
        ({"user": "User1"}, {"user": None}),
        ({"user": "User1", "client_id": "p1"}, {"user": None, "client_id": None}),
    ],
    ids=["client id", "user", "user and client id"],
)
def test_a_changed_quota_applies_to_what_was_recorded_before(own: dict[str, str], default: dict[str, None]) -> None:
    quotas = _Quotas()
    quotas.set(2000, **own)
    quotas.check("Random", "random", None, 0, throttled=False)
    quotas.check("User1", "p1", 2000, 2500, throttled=True)
    quotas.set(3000, **own)
    quotas.check("User1", "p1", 3000, 0, throttled=False)
    quotas.set(500, **own)
    quotas.check("User1", "p1", 500, 0, throttled=True)
    quotas.set(None, **own)
    quotas.set(4000, **default)
    quotas.check("User1", "p1", 4000, 1000, throttled=False)


@pytest.mark.parametrize(
    "entity", [{"user": None}, {"user": "userA"}, {"user": "userA", "client_id": "client1"}], ids=str
)
def test_a_quota_can_be_set_and_removed(entity: dict[str, str | None]) -> None:
    quotas = _Quotas()
    quotas.check("userA", "client1", None, 1000, throttled=False)
    quotas.set(10, **entity)
    quotas.check("userA", "client1", 10, 1000, throttled=True)
    quotas.set(None, **entity)
    quotas.check("userA", "client1", None, 1000, throttled=False)


def test_the_most_specific_quota_applies_and_is_shared_by_its_scope() -> None:
    quotas = _Quotas()
    quotas.set(1000, user=None)
    quotas.set(2000, client_id=None)
    quotas.set(3000, user=None, client_id=None)
    quotas.set(4000, user="userA")
    quotas.set(5000, user="userA", client_id="client1")
    quotas.set(6000, user="userB")
    quotas.set(7000, user="userB", client_id="client1")
    quotas.set(8000, user="userB", client_id=None)
    quotas.set(10_000, user="userC")
    quotas.set(9000, client_id="client1")

    quotas.check("userA", "client1", 5000, 4500, throttled=False)
    quotas.check("userA", "client2", 4000, 4500, throttled=True)
    quotas.check("userA", "client3", 4000, 0, throttled=True)  # shared by the user's other clients
    quotas.check("userA", "client1", 5000, 0, throttled=False)  # which this client is not part of
    quotas.check("userB", "client1", 7000, 8000, throttled=True)
    quotas.check("userB", "client2", 8000, 7000, throttled=False)
    quotas.check("userB", "client3", 8000, 7000, throttled=False)
    quotas.check("userD", "client1", 3000, 3500, throttled=True)
    quotas.check("userD", "client2", 3000, 2500, throttled=False)
    quotas.check("userE", "client1", 3000, 2500, throttled=False)

    quotas.set(None, user=None, client_id=None)
    quotas.check("userD", "client1", 1000, 0, throttled=False)  # another scope begins at zero
    quotas.check("userE", "client4", 1000, 1500, throttled=True)
    quotas.check("userF", "client4", 1000, 800, throttled=False)
    quotas.check("userF", "client5", 1000, 800, throttled=True)

    quotas.set(None, user=None)
    quotas.check("userF", "client4", 2000, 0, throttled=False)
    quotas.check("userF", "client5", 2000, 0, throttled=False)
    quotas.check("userF", "client5", 2000, 2500, throttled=True)
    quotas.check("userG", "client5", 2000, 0, throttled=True)  # shared by all users of the client id

    quotas.set(8000, user="userA")
    quotas.set(10_000, user="userA", client_id="client1")
    quotas.check("userA", "client2", 8000, 0, throttled=False)
    quotas.check("userA", "client2", 8000, 4500, throttled=True)
    quotas.check("userA", "client1", 10_000, 0, throttled=False)
    quotas.check("userA", "client1", 10_000, 6000, throttled=True)
    quotas.set(None, user="userA", client_id="client1")
    quotas.check("userA", "client6", 8000, 0, throttled=True)
    quotas.set(11_000, user="userA", client_id="client6")
    quotas.check("userA", "client6", 11_000, 8500, throttled=False)
    quotas.set(12_000, user="userA", client_id=None)
    quotas.set(None, user="userA", client_id="client6")
    quotas.check("userA", "client6", 12_000, 4000, throttled=True)


def _limit(name: str) -> Limit:
    return Limit(10, Scope("", name))


def test_unused_meters_make_room_for_others() -> None:
    meters = QuotaMeters(QuotaWindow(2, 1000), meters_max=2)
    kept = meters.rate_meter(PRODUCER_BYTE_RATE, _limit("a"), 0)
    meters.rate_meter(PRODUCER_BYTE_RATE, _limit("b"), 0).record(1, 0)
    kept.record(1, 1500)
    meters.rate_meter(PRODUCER_BYTE_RATE, _limit("c"), 2000).record(1, 2000)
    assert meters.sweeps == 1
    assert meters.rate_meter(PRODUCER_BYTE_RATE, _limit("a"), 2000) is kept
    assert len(meters) == 2


def test_clients_beyond_the_bound_share_a_meter() -> None:
    meters = QuotaMeters(QuotaWindow(), meters_max=1)
    meters.rate_meter(PRODUCER_BYTE_RATE, _limit("a"), 0).record(1, 0)
    shared = meters.rate_meter(PRODUCER_BYTE_RATE, _limit("b"), 0)
    assert shared.scope == OTHER
    for number in range(100):
        assert meters.rate_meter(PRODUCER_BYTE_RATE, _limit(f"new {number}"), 0) is shared
    assert len(meters) == 2


def test_clients_that_invent_names_do_not_make_users_share_a_meter() -> None:
    meters = QuotaMeters(QuotaWindow(), meters_max=2)
    for number in range(10):
        meters.rate_meter(PRODUCER_BYTE_RATE, _limit(f"invented {number}"), 0).record(1, 0)
    assert meters.rate_meter(PRODUCER_BYTE_RATE, Limit(5, Scope("alice", "")), 0).scope == Scope("alice", "")
    for number in range(10):
        meters.rate_meter(PRODUCER_BYTE_RATE, Limit(5, Scope(f"user {number}", "")), 0).record(1, 0)
    assert len(meters) == 2 * 2


def test_meters_are_not_searched_again_and_again() -> None:
    meters = QuotaMeters(QuotaWindow(1, 10), meters_max=1)
    meters.bucket_meter(_limit("a"), 0).take(1000, 0)
    meters.bucket_meter(_limit("b"), 0)
    meters.bucket_meter(_limit("a"), SWEEP_MS - 1)
    assert meters.bucket_meter(_limit("c"), SWEEP_MS - 1).scope == OTHER
    assert meters.sweeps == 0
