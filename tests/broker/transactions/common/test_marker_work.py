import pytest

from tailrace.broker.transactions.common.marker_work import MarkerStep, step_after
from tailrace.protocol.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("error", "step"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, MarkerStep.RETRY),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, MarkerStep.RETRY),
        (ErrorCode.NOT_ENOUGH_REPLICAS, MarkerStep.RETRY),
        (ErrorCode.UNKNOWN_SERVER_ERROR, MarkerStep.RETRY),
        (ErrorCode.INVALID_PRODUCER_EPOCH, MarkerStep.WRITTEN),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, MarkerStep.WRITTEN),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, MarkerStep.STOP),
    ],
)
def test_only_known_errors_end_the_work_on_a_marker(error: ErrorCode, step: MarkerStep) -> None:
    assert step_after(error) is step
