"""FindCoordinator, while nothing is coordinated: an answer for every key, in the shape of every version."""

import pytest
from spus import running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest

NOT_AVAILABLE, INVALID = ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize(("key_type", "code"), [(0, NOT_AVAILABLE), (1, NOT_AVAILABLE), (9, INVALID)])
async def test_one_key(autojump_clock: object, version: int, key_type: int, code: ErrorCode) -> None:
    if version == 0:
        code = NOT_AVAILABLE  # it knows groups only
    async with running_spu() as running:
        client = await running.client()
        request = FindCoordinatorRequest(key="g", key_type=key_type if version else 0)
        answer = await client.request(ApiKey.FIND_COORDINATOR, version, request)
        assert (answer.error_code, answer.node_id, answer.host, answer.port) == (code, -1, "", -1)


@pytest.mark.parametrize("version", range(4, 7))
@pytest.mark.parametrize(("key_type", "code"), [(0, NOT_AVAILABLE), (1, NOT_AVAILABLE), (2, INVALID)])
async def test_many_keys(autojump_clock: object, version: int, key_type: int, code: ErrorCode) -> None:
    async with running_spu() as running:
        client = await running.client()
        request = FindCoordinatorRequest(coordinator_keys=["g", "h", "g"], key_type=key_type)
        answers = (await client.request(ApiKey.FIND_COORDINATOR, version, request)).coordinators
        assert [(answer.key, answer.error_code, answer.node_id) for answer in answers] == [
            ("g", code, -1),
            ("h", code, -1),
        ]
        assert all(answer.error_message for answer in answers)
