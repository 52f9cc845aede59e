"""Decisions about clients are in the audit log of the SPU."""

import json
from collections.abc import Mapping

import trio
from authorized_spu import AuthorizedSpu, authorized_spu, rule

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.messages.list_groups import ListGroupsRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import ResourceType as Res


def _audited(spu: AuthorizedSpu, server: str = "spu-1") -> list[Mapping[str, object]]:
    """Returns the events in the audit log of a server."""
    files = spu.running.world.files
    paths = [path for path in sorted(files.paths()) if path.startswith(f"/data/{server}/audit/audit-")]
    lines = [json.loads(line) for path in paths for line in files.read(path).splitlines()]
    return [line for line in lines if line["event"] not in ("begin", "checkpoint")]


def _brief(events: list[Mapping[str, object]]) -> list[tuple[object, ...]]:
    return [tuple(event.get(name) for name in ("outcome", "operation", "resource")) for event in events]


async def test_what_is_allowed_is_recorded_once_and_what_is_denied_with_a_count(autojump_clock: object) -> None:
    async with authorized_spu(audit_log_enable="true") as spu:
        await spu.create("topic")
        await trio.sleep(1)
        before = len(_audited(spu))
        spu.allow(rule(Res.TOPIC, Op.DESCRIBE))
        client = await spu.client()
        for name in ("topic", "topic", "other", "other", "other"):
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
            response = await client.request(ApiKey.METADATA, 9, request)
            assert (response.topics[0].error_code == ErrorCode.NONE) == (name == "topic")
        await trio.sleep(1)
        spu.running.world.clock.time_ms += 60_000
        await trio.sleep(61)
        events = _audited(spu)[before:]
        assert _brief(events) == [
            ("allowed", "DESCRIBE", "TOPIC:topic"),
            ("denied", "DESCRIBE", "TOPIC:other"),
            ("denied", "DESCRIBE", "TOPIC:other"),
        ]
        assert "rule: " in str(events[0]["why"])
        assert (events[1]["why"], events[1].get("count"), events[2].get("count")) == ("no rule allows it", None, 2)


async def test_what_a_listing_leaves_out_is_no_refusal(autojump_clock: object) -> None:
    async with authorized_spu(audit_log_enable="true") as spu:
        await spu.create("topic")
        await trio.sleep(1)
        before = len(_audited(spu))
        await (await spu.client()).request(ApiKey.METADATA, 9, MetadataRequest(topics=None))
        await trio.sleep(1)
        assert [event for event in _audited(spu)[before:] if event["outcome"] == "denied"] == []


async def test_the_controller_records_the_change_and_the_spu_the_permission(autojump_clock: object) -> None:
    async with authorized_spu(audit_log_enable="true") as spu:
        spu.allow(rule(Res.TOPIC, Op.CREATE))
        request = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in ("topic", "other")])
        await spu.request(ApiKey.CREATE_TOPICS, request)
        await trio.sleep(1)
        assert ("done", "CreateTopics", "TOPIC:topic") in _brief(_audited(spu, "sc"))
        assert ("denied", "CREATE", "TOPIC:other") in _brief(_audited(spu))
        assert "other" not in str(_audited(spu, "sc"))


async def test_super_users_are_recorded_once_for_a_connection(autojump_clock: object) -> None:
    async with authorized_spu(audit_log_enable="true", super_users="User:ANONYMOUS") as spu:
        await trio.sleep(1)
        before = len(_audited(spu))
        client = await spu.client()
        for _ in range(2):
            await client.request(ApiKey.LIST_GROUPS, 3, ListGroupsRequest())
        await trio.sleep(1)
        assert _brief(_audited(spu)[before:]) == [("allowed", "ALL", "ANY:*")]
