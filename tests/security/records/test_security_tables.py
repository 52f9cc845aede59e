"""The tables of users, access rules, quotas and tokens."""

from msgspec.structs import replace
from security_samples import ALICE, FAST, READ_ORDERS, RECORDS, TOKEN

from tailrace.security.records.security_records import KINDS, key_of, kind_of
from tailrace.security.records.security_tables import SecurityTables


def test_records_are_found_in_the_table_of_their_kind_until_they_are_removed() -> None:
    tables = SecurityTables()
    for record in RECORDS:
        tables.put(record)
    assert tables.users == {"alice": ALICE}
    assert tables.acls == {key_of(READ_ORDERS): READ_ORDERS}
    assert tables.quotas == {key_of(FAST): FAST}
    assert tables.tokens == {"t1": TOKEN}
    for record in RECORDS:
        assert tables.of_kind(kind_of(record)) == {key_of(record): record}
        tables.remove(kind_of(record), key_of(record))
    assert not any(map(tables.of_kind, KINDS))


def test_each_change_raises_the_versions_and_is_told() -> None:
    tables, told = SecurityTables(), list[str]()
    tables.on_changed.append(told.append)
    tables.put(ALICE)
    tables.put(replace(ALICE, credentials=()))
    tables.remove("user", "nobody")
    tables.remove("user", "alice")
    assert told == ["user"] * 3
    assert tables.version == 3
    assert tables.versions == {"user": 3, "acl": 0, "quota": 0, "token": 0}
