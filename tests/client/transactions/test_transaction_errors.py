"""Tests what errors mean for a transaction."""

import pytest

from tailrace.client.server_connection import RefusedError
from tailrace.client.transactions.transaction_errors import (
    ProducerFencedError,
    TransactionLostError,
    Verdict,
    lost_by,
    verdict_of,
)
from tailrace.protocol.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (ErrorCode.NOT_COORDINATOR, Verdict.ASK_AGAIN),
        (ErrorCode.CONCURRENT_TRANSACTIONS, Verdict.ASK_AGAIN),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Verdict.ASK_AGAIN),
        (ErrorCode.KAFKA_STORAGE_ERROR, Verdict.ASK_AGAIN),
        (ErrorCode.PRODUCER_FENCED, Verdict.FENCED),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Verdict.FENCED),
        (ErrorCode.INVALID_TXN_STATE, Verdict.LOST),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, Verdict.LOST),
        (ErrorCode.TRANSACTION_ABORTABLE, Verdict.LOST),
        (ErrorCode.MESSAGE_TOO_LARGE, Verdict.REFUSE),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Verdict.REFUSE),
    ],
)
def test_each_error_has_one_meaning(code: ErrorCode, verdict: Verdict) -> None:
    assert verdict_of(code) is verdict


def test_a_fenced_producer_is_told_apart_from_a_lost_transaction() -> None:
    fenced = lost_by(RefusedError("PRODUCER_FENCED", ErrorCode.PRODUCER_FENCED))
    lost = lost_by(RefusedError("INVALID_TXN_STATE", ErrorCode.INVALID_TXN_STATE))
    assert isinstance(fenced, ProducerFencedError)
    assert type(lost) is TransactionLostError
    assert "INVALID_TXN_STATE" in str(lost)


def test_a_commit_with_an_old_epoch_is_explained_as_such() -> None:
    assert "a later owner has committed" in str(
        lost_by(RefusedError("ILLEGAL_GENERATION", ErrorCode.ILLEGAL_GENERATION))
    )
