import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.transactions.common.transaction_records import (
    TransactionRecord,
    barrier_record,
    decode_record,
    encode_record,
)
from tailrace.broker.transactions.common.transaction_status import State
from tailrace.protocol.codec.compile import encode_whole
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.transaction_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

KEY = TransactionLogKey("orders")
TOPICS = st.text(max_size=5) | st.just("t" * 249)
NUMBERS = st.lists(st.integers(0, 9)) | st.just(list(range(300)))


def test_a_record_has_the_bytes_that_kafka_writes() -> None:
    value = TransactionLogValue(
        producer_id=5,
        previous_producer_id=4,
        next_producer_id=6,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=State.PREPARE_COMMIT,
        transaction_partitions=[PartitionsSchema("t", [0, 2])],
        transaction_last_update_timestamp_ms=10,
        transaction_start_timestamp_ms=9,
        client_transaction_version=2,
    )
    key, encoded = encode_record(TransactionRecord(KEY, value))
    assert key == b"\0\0" + b"\0\6orders"
    assert encoded == bytes.fromhex(
        "0001"  # the version of the value
        "0000000000000005 0003 0000ea60 02"
        "02 0274 03 00000000 00000002 00"
        "000000000000000a 0000000000000009"
        "03 00 08 0000000000000004 01 08 0000000000000006 02 02 0002"
    )


def test_an_empty_state_has_no_partitions_and_no_unneeded_tags() -> None:
    value = TransactionLogValue(producer_id=5, transaction_status=State.EMPTY, transaction_partitions=None)
    _, encoded = encode_record(TransactionRecord(KEY, value))
    assert encoded == bytes.fromhex("0001 0000000000000005 0000 00000000 00 00" + "00" * 16 + "00")


@given(
    st.text(max_size=10),
    st.none()
    | st.builds(
        TransactionLogValue,
        producer_id=st.integers(0, 2**63 - 1),
        previous_producer_id=st.integers(-1, 2**63 - 1),
        next_producer_id=st.integers(-1, 2**63 - 1),
        producer_epoch=st.integers(0, 2**15 - 1),
        transaction_timeout_ms=st.integers(1, 2**31 - 1),
        transaction_status=st.integers(0, 5),
        transaction_partitions=st.none() | st.lists(st.builds(PartitionsSchema, topic=TOPICS, partition_ids=NUMBERS)),
        transaction_last_update_timestamp_ms=st.integers(-1, 2**63 - 1),
        transaction_start_timestamp_ms=st.integers(-1, 2**63 - 1),
        next_producer_epoch=st.integers(-1, 1),
        client_transaction_version=st.sampled_from([0, 1, 2]),
    ),
)
def test_a_record_is_read_as_it_was_written(transactional_id: str, value: TransactionLogValue | None) -> None:
    record = TransactionRecord(TransactionLogKey(transactional_id), value)
    _, encoded = encode_record(record)
    assert decode_record(*encode_record(record)) == record
    if value is not None:
        assert encoded == b"\0\1" + encode_whole(value, 1)


def test_values_of_the_older_version_are_read() -> None:
    value = TransactionLogValue(producer_id=5, producer_epoch=1, transaction_partitions=[PartitionsSchema("t", [1])])
    key, _ = encode_record(TransactionRecord(KEY, None))
    assert decode_record(key, b"\0\0" + encode_whole(value, 0)) == TransactionRecord(KEY, value)


def test_a_record_of_an_unknown_type_is_skipped() -> None:
    assert decode_record(b"\0\1\0\1x", b"") is None


def test_the_barrier_is_a_tombstone_of_an_id_that_no_producer_has() -> None:
    assert decode_record(*encode_record(barrier_record())) == TransactionRecord(TransactionLogKey(""), None)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0",
        b"\0\2" + bytes(40),
        b"\0\1\0",
        b"\0\1" + encode_whole(TransactionLogValue(producer_id=1, transaction_status=6), 1),
        b"\0\1" + encode_whole(TransactionLogValue(producer_id=1, transaction_status=-1), 1),
        b"\0\1" + encode_whole(TransactionLogValue(producer_id=-1), 1),
        b"\0\1" + encode_whole(TransactionLogValue(producer_id=1, producer_epoch=-1), 1),
    ],
)
def test_a_corrupt_value_is_refused(value: bytes) -> None:
    with pytest.raises(KafkaError) as refused:
        decode_record(b"\0\0\0\1x", value)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("key", [None, b"", b"\0", b"\0\0\0\5x"])
def test_a_corrupt_key_is_refused(key: bytes | None) -> None:
    with pytest.raises(KafkaError) as refused:
        decode_record(key, None)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
