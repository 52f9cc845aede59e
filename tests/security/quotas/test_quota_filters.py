"""The entities and filters are those of Kafka's ClientQuotasRequestTest."""

import pytest

from tailrace.security.quotas.quota_filters import (
    ANY,
    DEFAULT,
    EXACT,
    EntityFilter,
    UnknownTypeError,
    check_filters,
    matching,
)
from tailrace.security.quotas.quota_rules import QuotaError, checked_entity
from tailrace.security.records.quota_record import QuotaRecord

_ABSENT = ""
CLIENTS: tuple[tuple[str | None, str | None], ...] = (
    ("user-1", "client-id-1"),
    ("user-2", "client-id-1"),
    ("user-3", "client-id-2"),
    (None, "client-id-1"),
    ("user-1", None),
    ("user-3", None),
    ("user-1", _ABSENT),
    ("user-2", _ABSENT),
    ("user-3", _ABSENT),
    (None, _ABSENT),
    (_ABSENT, "client-id-2"),
)


def _record(user: str | None, client_id: str | None) -> QuotaRecord:
    parts = [(kind, name) for kind, name in (("user", user), ("client-id", client_id)) if name != _ABSENT]
    return QuotaRecord(checked_entity(parts), {"request_percentage": 50.0})


RECORDS = [
    *(_record(*client) for client in CLIENTS),
    *(QuotaRecord((("ip", ip),), {"connection_creation_rate": 10.0}) for ip in ("1.2.3.4", "2.3.4.5")),
]


def _exactly(record: QuotaRecord) -> list[EntityFilter]:
    return [EntityFilter(kind, DEFAULT if name is None else EXACT, name) for kind, name in record.entity]


@pytest.mark.parametrize("record", RECORDS, ids=str)
def test_an_entity_is_found_by_all_its_parts(record: QuotaRecord) -> None:
    assert list(matching(RECORDS, _exactly(record), is_strict=True)) == [record]


@pytest.mark.parametrize(
    ("user", "client_id"),
    [
        ("user-1", "client-id-2"),
        ("user-3", "client-id-1"),
        ("user-2", None),
        ("user-4", _ABSENT),
        (None, "client-id-2"),
        (_ABSENT, "client-id-1"),
        (_ABSENT, "client-id-3"),
    ],
)
def test_an_entity_without_quotas_is_not_found(user: str | None, client_id: str | None) -> None:
    assert not list(matching(RECORDS, _exactly(_record(user, client_id)), is_strict=True))


@pytest.mark.parametrize(
    ("filters", "is_strict", "count"),
    [
        ([EntityFilter("user", EXACT, "user-1")], False, 3),
        ([EntityFilter("user", EXACT, "unknown")], False, 0),
        ([EntityFilter("client-id", EXACT, "client-id-2")], False, 2),
        ([EntityFilter("user", DEFAULT)], False, 2),
        ([EntityFilter("user", EXACT, "user-2")], True, 1),
        ([EntityFilter("client-id", EXACT, "client-id-1")], True, 0),
        ([EntityFilter("user", ANY)], True, 4),
        ([EntityFilter("user", ANY)], False, 10),
        ([EntityFilter("client-id", ANY)], True, 1),
        ([EntityFilter("client-id", ANY)], False, 7),
        ([EntityFilter("ip", ANY)], False, 2),
        ([], False, 13),
        ([], True, 0),
    ],
    ids=str,
)
def test_filters_match_parts_of_entities(filters: list[EntityFilter], is_strict: bool, count: int) -> None:
    check_filters(filters)
    assert len(list(matching(RECORDS, filters, is_strict=is_strict))) == count


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ([EntityFilter("", ANY)], "no type"),
        ([EntityFilter("user", ANY), EntityFilter("user", DEFAULT)], "two filters"),
        ([EntityFilter("ip", ANY), EntityFilter("user", ANY)], "cannot be combined"),
        ([EntityFilter("ip", ANY), EntityFilter("client-id", ANY)], "cannot be combined"),
        ([EntityFilter("user", EXACT)], "needs a name"),
        ([EntityFilter("user", DEFAULT, "a")], "needs a name"),
        ([EntityFilter("user", ANY, "a")], "needs a name"),
        ([EntityFilter("user", 3)], "no kind of match"),
    ],
)
def test_wrong_filters_are_refused(filters: list[EntityFilter], reason: str) -> None:
    with pytest.raises(QuotaError, match=reason):
        check_filters(filters)


def test_an_unknown_type_has_an_error_of_its_own() -> None:
    with pytest.raises(UnknownTypeError):
        check_filters([EntityFilter("other", EXACT, "name")])
