from tailrace.broker.transactions.common.producer_id_needed import ProducerIdNeededError
from tailrace.protocol.error_codes import ErrorCode


def test_a_client_would_retry_after_the_error() -> None:
    assert ProducerIdNeededError().code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
