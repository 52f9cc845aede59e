import pytest

from tailrace.cluster.configs.config_changes import ResourceKind
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.alter_configs import AlterConfigsResourceResponse
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from tailrace.server.config_responses import rows

RESOURCES = [(ResourceKind.TOPIC, "orders"), (ResourceKind.BROKER, "1")]


@pytest.mark.parametrize("row", [AlterConfigsResourceResponse, IncrementalResourceResponse])
def test_each_resource_is_answered_with_its_own_outcome(row: type) -> None:
    refused = KafkaError(ErrorCode.INVALID_CONFIG, "no such config")
    assert rows(row, RESOURCES, [None, refused]) == [
        row(error_code=0, error_message=None, resource_type=2, resource_name="orders"),
        row(error_code=ErrorCode.INVALID_CONFIG, error_message="no such config", resource_type=4, resource_name="1"),
    ]


def test_there_must_be_an_outcome_for_each_resource() -> None:
    with pytest.raises(ValueError, match="shorter"):
        rows(AlterConfigsResourceResponse, RESOURCES, [None])
