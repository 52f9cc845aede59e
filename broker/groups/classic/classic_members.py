"""The members of a classic group, its leader, and the protocols that all members support.

What a join has to know of all members is counted as they join and leave, so that no join has to visit all members.
"""

from collections import Counter
from collections.abc import Iterator, ValuesView

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .classic_member import ClassicMember


class ClassicMembers:
    __slots__ = ("_by_id", "_by_instance", "_supporting", "bytes_held", "joining", "leader_id")

    def __init__(self) -> None:
        self.leader_id: str | None = None
        self.joining = 0
        """The number of members with a parked JoinGroup request."""
        self.bytes_held = 0
        self._by_id: dict[str, ClassicMember] = {}
        self._by_instance: dict[str, str] = {}
        self._supporting: Counter[str] = Counter()
        """The number of members that support each protocol, by its name."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[ClassicMember]:
        return iter(self._by_id.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def values(self) -> ValuesView[ClassicMember]:
        return self._by_id.values()

    def find(self, member_id: str) -> ClassicMember | None:
        return self._by_id.get(member_id)

    def with_instance(self, instance_id: str) -> ClassicMember | None:
        member_id = self._by_instance.get(instance_id)
        return None if member_id is None else self._by_id[member_id]

    def check(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Returns the member with this id.

        Raises KafkaError if there is none, or if another member has its instance id.
        """
        if instance_id is not None:
            current = self._by_instance.get(instance_id)
            if current is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id}")
            if current != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, f"another member has the instance id {instance_id} now")
        member = self._by_id.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"the group has no member {member_id}")
        return member

    @property
    def leader(self) -> ClassicMember | None:
        return None if self.leader_id is None else self._by_id.get(self.leader_id)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    # joining and leaving

    def add(self, member: ClassicMember) -> None:
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            self._by_instance[member.instance_id] = member.member_id
        self._count(member, 1)

    def remove(self, member: ClassicMember) -> None:
        """Removes a member without parked requests."""
        del self._by_id[member.member_id]
        if member.instance_id is not None:
            del self._by_instance[member.instance_id]
        self._count(member, -1)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self._by_id), None)

    def update(
        self, member: ClassicMember, protocols: dict[str, bytes], rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        self._count(member, -1)
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._count(member, 1)

    def _count(self, member: ClassicMember, sign: int) -> None:
        self.joining += sign * (member.joining is not None)
        self.bytes_held += sign * member.bytes_held
        for name in member.protocols:
            self._supporting[name] += sign
            if not self._supporting[name]:
                del self._supporting[name]

    # parked requests

    def park_join(self, member: ClassicMember, waiter: Waiter) -> Waiter | None:
        """Parks a JoinGroup request, and returns the one that it replaces."""
        earlier, member.joining = member.joining, waiter
        self.joining += earlier is None
        return earlier

    def take_join(self, member: ClassicMember) -> Waiter | None:
        waiter, member.joining = member.joining, None
        self.joining -= waiter is not None
        return waiter

    # protocols and leader

    def all_support_one_of(self, names: dict[str, bytes]) -> bool:
        member_count = len(self._by_id)
        return any(self._supporting[name] == member_count for name in names)

    def vote(self) -> str:
        """Returns the protocol with the most votes of those that all members support. There must be members."""
        member_count = len(self._by_id)
        candidates = {name for name, count in self._supporting.items() if count == member_count}
        votes = Counter(next(name for name in member.protocols if name in candidates) for member in self)
        return votes.most_common(1)[0][0]

    def elect_joined_leader(self) -> bool:
        """Keeps the leader if it has joined, or else elects the first member that has.

        Returns False if none has joined.
        """
        leader = self.leader
        if leader is None or leader.joining is None:
            leader = next((member for member in self if member.joining is not None), None)
        if leader is None:
            return False
        self.leader_id = leader.member_id
        return True
