"""An SPU with an authorizer. All of its clients are anonymous, so that a test gives rules to one principal."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from simulation.client import WireClient
from spus import RunningSpu, newest, running_spu
from trio.testing import wait_all_tasks_blocked

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.security.acls.acl_codes import CLUSTER_NAME, WILDCARD, Operation, PatternType, Permission, ResourceType
from tailrace.security.records.acl_record import AclRecord
from tailrace.security.records.security_records import ACL

ANONYMOUS = "User:ANONYMOUS"
NAMES = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: CLUSTER_NAME,
    ResourceType.TRANSACTIONAL_ID: "transaction",
}
"""The usual name of a resource of each type."""

Rule = tuple[ResourceType, Operation]
_BROKER = {
    "authorizer.class.name": "tailrace",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


def rule(
    kind: ResourceType,
    operation: Operation,
    name: str | None = None,
    *,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    who: str = ANONYMOUS,
    host: str = WILDCARD,
) -> AclRecord:
    return AclRecord(kind, pattern, NAMES[kind] if name is None else name, who, host, operation, permission)


class AuthorizedSpu:
    """The SPU, and the rules in its mirror."""

    def __init__(self, running: RunningSpu) -> None:
        self.running = running
        self.spu = running.spu

    async def client(self) -> WireClient:
        return await self.running.client()

    def allow(self, *rules: Rule | AclRecord) -> None:
        for each in rules:
            self.spu.cluster.put_security(each if isinstance(each, AclRecord) else rule(*each))

    def remove(self, *rules: Rule | AclRecord) -> None:
        for each in rules:
            record = each if isinstance(each, AclRecord) else rule(*each)
            keys = [key for key, found in self.spu.cluster.security.acls.items() if found == record]
            assert keys, "there is such a rule"
            for key in keys:
                self.spu.cluster.remove_security(ACL, key)

    def remove_all(self) -> None:
        for key in list(self.spu.cluster.security.acls):
            self.spu.cluster.remove_security(ACL, key)

    @contextmanager
    def unlimited(self) -> Iterator[None]:
        """Lets clients do everything for a while."""
        everything = [
            rule(kind, Operation.ALL, CLUSTER_NAME if kind == ResourceType.CLUSTER else WILDCARD) for kind in NAMES
        ]
        self.allow(*everything)
        yield
        self.remove(*everything)

    async def create(self, name: str = "topic", partitions: int = 1) -> None:
        with self.unlimited():
            await self.running.create(name, partitions)

    async def coordinate(self) -> None:
        """Waits until the SPU coordinates groups and transactions, as a client does that looks for a coordinator."""
        with self.unlimited():
            for key_type in (0, 1):
                request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
                while (await self.request(ApiKey.FIND_COORDINATOR, request)).coordinators[0].error_code:
                    pass
                await wait_all_tasks_blocked()

    async def request(self, api: ApiKey, message: object, version: int | None = None) -> Any:
        """Sends one request on a connection of its own."""
        return await (await self.client()).request(api, newest(api) if version is None else version, message)


@asynccontextmanager
async def authorized_spu(**settings: str) -> AsyncIterator[AuthorizedSpu]:
    """Yields an SPU with an authorizer; the settings have underscores in the place of dots."""
    given = {name.replace("_", "."): text for name, text in settings.items()}
    async with running_spu(broker={**_BROKER, **given}) as running:
        yield AuthorizedSpu(running)
