"""What an error means for a transaction: to ask again, to refuse a record, or to begin again. Pure."""

from collections.abc import Mapping
from enum import Enum, auto

from tailrace.client.server_connection import RefusedError, reason_of
from tailrace.client.spu_client import TRANSIENT
from tailrace.protocol.error_codes import ErrorCode


class TransactionLostError(Exception):
    """The transaction is aborted, or will be: nothing of it may count as sent. The message is one sentence.

    The producer must be initialized again, and its owner begins again at the last committed offset.
    """


class ProducerFencedError(TransactionLostError):
    """A newer producer has the transactional id, or the coordinator has aborted the transaction at its timeout.

    Kafka has one error code for both. The owner finds out who may go on when it reads the committed offset.
    """


class Verdict(Enum):
    """What to do after an error code."""

    ASK_AGAIN = auto()
    """The error is transient. The same request, with the same sequence numbers, may succeed."""
    REFUSE = auto()
    """The request itself is refused, and the transaction stays open."""
    FENCED = auto()
    LOST = auto()


_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_LOST = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)
_REASONS: Mapping[int, str] = {
    ErrorCode.ILLEGAL_GENERATION: "a later owner has committed an offset, or the group has members",
}
"""What errors mean in a transaction, if they mean something else in other requests."""


def verdict_of(code: int) -> Verdict:
    """Says what an error code of a leader or a coordinator means for the transaction."""
    if code in TRANSIENT:
        return Verdict.ASK_AGAIN
    if code in _FENCED:
        return Verdict.FENCED
    return Verdict.LOST if code in _LOST else Verdict.REFUSE


def lost_by(refused: RefusedError) -> TransactionLostError:
    """Returns the error for a refusal after which the transaction cannot be committed."""
    if verdict_of(refused.code) is Verdict.FENCED:
        return ProducerFencedError(
            "a newer producer has the transactional id, or the transaction was aborted at its timeout"
        )
    reason = _REASONS.get(refused.code) or reason_of(refused)
    return TransactionLostError(f"the transaction cannot be committed: {reason}")
