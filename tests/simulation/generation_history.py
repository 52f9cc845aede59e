"""What members of one classic group were told of its generations: one assignment each, and never back. Pure.

Members are known by their instance where they have one: another process of the same instance takes its place within a
generation, with what belonged to it.
"""

from collections.abc import Mapping, Sequence

from .offset_history import GroupHistoryError, OffsetHistory

Plan = Mapping[str, frozenset[int]]
"""By member, the partitions that the leader of a generation gives it."""


class GenerationHistory:
    def __init__(self, group: str, offsets: Sequence[OffsetHistory]) -> None:
        """The offsets are told which generation has begun."""
        self.generation = -1
        """The newest that some member was given an assignment of."""
        self._group = group
        self._offsets = offsets
        self._told: list[tuple[float, int]] = []
        """When a generation was heard of that was newer than any before."""
        self._plans: dict[int, list[Plan]] = {}
        self._assigned: dict[int, dict[str, frozenset[int]]] = {}

    def on_joined(self, member: str, generation: int, began: float) -> None:
        """As JoinGroup answered, which was asked at `began`."""
        self._check_not_fallen(member, generation, began)

    def on_planned(self, generation: int, plan: Plan) -> None:
        """A leader is about to send it. It may do so twice, and differently, if the first was not taken."""
        self._plans.setdefault(generation, []).append(plan)

    def on_assigned(self, member: str, generation: int, partitions: frozenset[int], began: float, at: float) -> None:
        """As SyncGroup answered, which was asked at `began`."""
        self._check_not_fallen(member, generation, began)
        assigned = self._assigned.setdefault(generation, {})
        before = assigned.setdefault(member, partitions)
        self._check(
            before == partitions, f"{member} was given {_sorted(before)} of {generation}, then {_sorted(partitions)}"
        )
        for other, theirs in assigned.items():
            shared = theirs & partitions if other != member else None
            self._check(not shared, f"{member} and {other} were both given {_sorted(shared or ())} of {generation}")
        fitting = [
            plan
            for plan in self._plans.get(generation, ())
            if all(plan.get(each, frozenset()) == theirs for each, theirs in assigned.items())
        ]
        self._check(
            bool(fitting), f"no leader of generation {generation} gave what its members got: {_shown(assigned)}"
        )
        if generation > self.generation:
            self.generation = generation
            self._told.append((at, generation))
            for each in self._offsets:
                each.on_term(generation, at)

    def _check_not_fallen(self, member: str, generation: int, began: float) -> None:
        known = max((told for at, told in self._told if at < began), default=-1)
        self._check(generation >= known, f"{member} was told generation {generation} after {known} was known")

    def _check(self, holds: bool, sentence: str) -> None:
        if not holds:
            raise GroupHistoryError(f"{self._group}: {sentence}")


def _shown(assigned: Plan) -> str:
    return ", ".join(f"{member} {_sorted(partitions)}" for member, partitions in assigned.items())


def _sorted(partitions: Sequence[int] | frozenset[int]) -> list[int]:
    return sorted(partitions)
