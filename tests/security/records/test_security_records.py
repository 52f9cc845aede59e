"""Stored records: their keys, their form as bytes, and their limits."""

import pytest
from msgspec.structs import replace
from security_samples import ALICE, FAST, READ_ORDERS, RECORDS, TOKEN

from tailrace.security.records.security_records import (
    KINDS,
    NAME_BYTES_MAX,
    RECORD_BYTES_MAX,
    RecordError,
    SecurityRecord,
    check_record,
    decode_record,
    document_of_record,
    encode_record,
    key_of,
    kind_of,
    read_record,
)


@pytest.mark.parametrize("record", RECORDS, ids=kind_of)
def test_a_record_is_the_same_after_encoding_and_decoding(record: SecurityRecord) -> None:
    assert decode_record(kind_of(record), encode_record(record)) == record
    assert read_record(kind_of(record), document_of_record(record)) == record
    check_record(record)


def test_every_kind_has_a_sample() -> None:
    assert {kind_of(record) for record in RECORDS} == set(KINDS)


def test_keys_differ_when_a_field_differs_and_can_be_computed_again() -> None:
    assert key_of(ALICE) == "alice"
    assert key_of(TOKEN) == "t1"
    assert key_of(READ_ORDERS) == key_of(replace(READ_ORDERS))
    changed = [replace(READ_ORDERS, host="::1"), replace(READ_ORDERS, operation=4), replace(READ_ORDERS, permission=2)]
    assert len({key_of(each) for each in (READ_ORDERS, *changed)}) == 4
    assert key_of(FAST) == key_of(replace(FAST, values={}))
    assert key_of(FAST) != key_of(replace(FAST, entity=(("user", "alice"), ("client-id", "None"))))


def test_bytes_that_are_no_record_are_refused_without_their_content() -> None:
    with pytest.raises(RecordError) as caught:
        decode_record("user", b'{"name": "alice", "credentials": [{"mechanism": "S", "salt": "secret!"}]}')
    assert "user" in str(caught.value)
    assert "secret" not in str(caught.value)
    with pytest.raises(RecordError, match="not a kind"):
        decode_record("passwords", b"{}")


def test_a_record_with_a_long_name_or_too_many_bytes_is_refused() -> None:
    with pytest.raises(RecordError, match="1 to 1024 bytes, not 0"):
        check_record(replace(ALICE, name=""))
    with pytest.raises(RecordError, match="bytes, not 1025"):
        check_record(replace(ALICE, name="a" * (NAME_BYTES_MAX + 1)))
    with pytest.raises(RecordError, match="takes more than"):
        check_record(replace(READ_ORDERS, resource_name="a" * RECORD_BYTES_MAX))
