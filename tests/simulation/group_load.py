"""The groups of a simulation: members that join, leave and stall, onlookers, and the checks at the end."""

from collections.abc import Sequence
from math import inf

import trio

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest

from .classic_member import ClassicMember
from .client import WireClient
from .consumer_member import ConsumerMember
from .determinism import random_of
from .group_client import GroupClient, RefusedError
from .history import PartitionHistory
from .lone_committer import LoneCommitter
from .moments import Moments
from .patient_client import RetryError
from .simulated_group import ONLOOKER, Group, Timeouts
from .world import World

KINDS = {"classic": (ClassicMember,), "consumer": (ConsumerMember,), "mixed": (ClassicMember, ConsumerMember)}
MIXED = "mixed"
LONE = "lone"
"""The kind of groups without members."""
DESCRIBE_GROUPS_VERSION = 5
CONSUMER_GROUP_DESCRIBE_VERSION = 0
STABLE = "Stable"

Member = ClassicMember | ConsumerMember


class GroupLoad:
    def __init__(
        self,
        world: World,
        topic: str,
        partitions: Sequence[PartitionHistory],
        partitions_added: int,
        kinds: Sequence[str],
        timeouts: Timeouts,
        moments: Moments,
        nursery: trio.Nursery,
    ) -> None:
        """Makes the groups; `partitions_added` of the partitions do not exist at the beginning."""
        self._moments = moments
        self._world = world
        self._topic = topic
        self._partitions = partitions
        self._first_partitions = partitions[: len(partitions) - partitions_added]
        self._kinds = kinds
        self._timeouts = timeouts
        self._nursery = nursery
        self._groups: dict[str, Group] = {}
        self._newest: dict[str, Group] = {}
        """The current ones of those groups that have no members, which succeed each other."""
        self._members: dict[str, dict[int, Member]] = {}
        """The current members, by group and place."""
        self._lone: list[LoneCommitter] = []
        self._is_settling = trio.Event()

    def start(self) -> None:
        for number, kind in enumerate(self._kinds):
            name = f"{kind}-{number}"
            if kind == LONE:
                lone = LoneCommitter(self._world, name, self._new_group, self._is_settling)
                self._lone.append(lone)
                self._nursery.start_soon(lone.run)
            else:
                self._new_group(name)
                self._members[name] = {}
                for place in range(random_of(self._world.seed, name).randint(1, 3)):
                    self._nursery.start_soon(self._occupy, name, kind, place)
        for number in range(2 if self._kinds else 0):
            self._nursery.start_soon(self._look_on, f"{ONLOOKER}-{number}")

    def settle(self) -> None:
        """Makes all members stay."""
        self._is_settling.set()
        for members in self._members.values():
            for member in members.values():
                member.stay()

    @property
    def commits(self) -> int:
        return sum(offsets.acknowledged for group in self._groups.values() for offsets in group.offsets)

    def _new_group(self, group_id: str) -> Group:
        key = group_id.rpartition("-")[0] if group_id.count("-") > 1 else group_id
        is_mixed = group_id.startswith(MIXED)
        partitions = self._first_partitions if key.startswith(LONE) else self._partitions
        group = Group(group_id, self._topic, partitions, self._timeouts, self._moments, is_mixed)
        self._groups[group_id] = self._newest[key] = group
        return group

    # members

    async def _occupy(self, group_id: str, kind: str, place: int) -> None:
        """Runs members in one place, one after the other, until the load settles.

        Two members of a static instance may overlap, but not if one may be classic: it would take the place of the
        other, which has not released its partitions.
        """
        chance = random_of(self._world.seed, group_id, place)
        instance_id = f"{group_id}-instance-{place}" if chance.random() < 0.3 else None
        stays = chance.random() < 0.4
        async with trio.open_nursery() as nursery:
            for number in range(1000):
                lives = inf if stays else chance.uniform(0.5, 5)
                name = f"{group_id}-{place}-{number}"
                member = chance.choice(KINDS[kind])(
                    self._world, name, self._groups[group_id], chance, instance_id=instance_id, lives=lives
                )
                self._members[group_id][place] = member
                if self._is_settling.is_set():
                    member.stay()
                if instance_id is not None and lives < inf and kind != MIXED and chance.random() < 0.3:
                    nursery.start_soon(member.run)
                    await self._pause(lives * chance.random())
                    if self._is_settling.is_set():
                        await member.ended.wait()  # that never happens unless the member was about to end
                else:
                    await member.run()
                    if place > 0 and chance.random() < 0.2:
                        del self._members[group_id][place]
                        return
                    await self._pause(chance.choice((0.0, 0.5, 2.0)) * chance.random())

    async def _pause(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self._is_settling.wait()

    # onlookers

    async def _look_on(self, name: str) -> None:
        """Fetches what others have committed, also from SPUs that should know that they do not coordinate the group."""
        chance = random_of(self._world.seed, name)
        while True:
            await trio.sleep(chance.uniform(0.02, 0.4))
            groups = self._groups if chance.random() < 0.2 else self._newest
            client = GroupClient(self._world, name, chance.choice(list(groups.values())), chance)
            async with client.client.trying():
                spu = client.client.any_spu() if chance.random() < 0.5 else await client.find()
                async with client.client.connected(spu) as connected:
                    for _ in range(chance.choice((1, 5, 20))):
                        await self._fetch(client, connected)
                        await trio.sleep(chance.uniform(0, 0.5))

    async def _fetch(self, client: GroupClient, connected: WireClient) -> None:
        try:
            await client.fetch(connected)
        except RefusedError as refused:
            raise AssertionError(f"{client.client.name} is not a member, but was refused: {refused}") from None

    # the end

    def unsettled(self) -> str | None:
        """Returns a reason why not everything is consumed and committed yet, or None."""
        if not all(lone.is_done for lone in self._lone):
            return "offsets are still committed without members"
        ends = self._log_ends()
        for group_id, members in self._members.items():
            owners: dict[int, str] = {}
            for member in members.values():
                reason = "a member has ended" if member.ended.is_set() else member.unsettled()
                if reason is not None:
                    return reason
                assert member.reading is not None
                for partition, position in member.reading.positions().items():
                    name = member.client.client.name
                    if partition in owners:
                        return f"{name} and {owners[partition]} read {self._topic}-{partition}"
                    owners[partition] = name
                    if position.offset != ends.get(partition, -1):
                        return f"{name} is at {position} of {self._topic}-{partition}, which ends at {ends}"
                    if member.committed.get(partition) != position:
                        return f"{name} has not committed {position} of {self._topic}-{partition}"
            if len(owners) < len(self._partitions):
                return f"{group_id} reads {sorted(owners)}"
        return None

    async def check_final(self) -> None:
        """Checks that every SPU reports the final committed offsets and groups."""
        for group_id, group in self._groups.items():
            client = GroupClient(self._world, f"last-of-{group_id}", group, random_of(self._world.seed, group_id))
            done = False
            with trio.move_on_after(20):
                while not done:
                    async with client.client.trying():
                        spu = await client.find()
                        async with client.client.connected(spu) as connected:
                            await self._check_group(client, connected)
                            done = True
            assert done, f"the committed offsets of {group_id} cannot be fetched: {client.client.last_reason}"

    async def _check_group(self, client: GroupClient, connected: WireClient) -> None:
        found = await client.fetch(connected)
        members = self._members.get(client.group.group_id)
        if members is None:
            return
        offsets = {partition: position.offset for partition, position in found.items()}
        assert offsets == self._log_ends(), f"{client.group.group_id} committed {offsets}, not {self._log_ends()}"
        state, count = await self._described(client, connected)
        if state != STABLE or count != len(members):
            raise RetryError(f"{client.group.group_id} is {state} and has {count} members")

    async def _described(self, client: GroupClient, connected: WireClient) -> tuple[str, int]:
        """Describes the group with the protocol that it has now, which nobody knows in advance if the group is
        mixed."""
        group_ids = [client.group.group_id]
        if not client.group.group_id.startswith("classic"):
            request: object = ConsumerGroupDescribeRequest(group_ids)
            api, version = ApiKey.CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_DESCRIBE_VERSION
            (group,) = (await client.ask(connected, api, version, request)).groups
            if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND or not client.group.is_mixed:
                client.check(group.error_code)
                return group.group_state, len(group.members)
        request = DescribeGroupsRequest(group_ids)
        (group,) = (await client.ask(connected, ApiKey.DESCRIBE_GROUPS, DESCRIBE_GROUPS_VERSION, request)).groups
        client.check(group.error_code)
        return group.group_state, len(group.members)

    def _log_ends(self) -> dict[int, int]:
        ends: dict[int, int] = {}
        for spu in self._world.running_spus().values():
            for replica in spu.replicas:
                if replica.topic == self._topic and replica.is_leader:
                    ends[replica.partition] = replica.log.log_end
        return dict(sorted(ends.items()))
