import json

from hosts import request_of
from running_workflow import RecordedReplicas, running_workflow

from tailrace.controller.handlers.read_trigger_log import handle
from tailrace.controller.triggers.bounded_log import LogPart
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.read_trigger_log import ReadTriggerLogRequest

CONTEXT = request_of(ApiKey.METADATA)
TRIGGER = {"name": "bill", "topic": "orders", "group": "g", "function": {"path": "/f.py", "source": ""}}


class Logs(RecordedReplicas):
    def read_log(self, trigger: str, replica: str, after: int, bytes_max: int) -> LogPart | None:
        return LogPart(f"{trigger} {replica} {after} {bytes_max}\n", 7) if replica == "replica1" else None


async def test_the_log_of_a_replica_is_read_or_missing() -> None:
    async with running_workflow(replicas=Logs()) as running:
        missing = handle(running.host, CONTEXT, ReadTriggerLogRequest("bill", "replica1", -1, 10))
        assert (missing.error_code, missing.error_message) == (
            ErrorCode.RESOURCE_NOT_FOUND,
            "there is no trigger bill",
        )
        await running.objects.create("trigger", json.dumps(TRIGGER), 0)
        found = handle(running.host, CONTEXT, ReadTriggerLogRequest("bill", "replica1", -1, 10))
        assert (found.error_code, found.text, found.next) == (ErrorCode.NONE, "bill replica1 -1 10\n", 7)
        for name in ("replica2", "../replica1"):
            missing = handle(running.host, CONTEXT, ReadTriggerLogRequest("bill", name, -1, 10))
            assert missing.error_code == ErrorCode.RESOURCE_NOT_FOUND
