"""What members of one classic group were told of its generations: one assignment each, and no way back. Pure.

Members are identified by their instance if they have one: another process of the same instance takes its place in a
generation, with everything that it owned.
"""

from collections.abc import Mapping, Sequence

from .offset_history import GroupHistoryError, OffsetHistory

Plan = Mapping[str, frozenset[int]]
"""The partitions that the leader of a generation assigns, by member."""


class GenerationHistory:
    def __init__(self, group: str, offsets: Sequence[OffsetHistory]) -> None:
        """Prepares the history; `offsets` are told of each new generation."""
        self.generation = -1
        """The newest generation in which a member got an assignment."""
        self._group = group
        self._offsets = offsets
        self._told: list[tuple[float, int]] = []
        """The times at which newer generations became known."""
        self._plans: dict[int, list[Plan]] = {}
        self._assigned: dict[int, dict[str, frozenset[int]]] = {}

    def on_joined(self, member: str, generation: int, began: float) -> None:
        """Records a response to JoinGroup; the request was sent at `began`."""
        self._check_not_fallen(member, generation, began)

    def on_planned(self, generation: int, plan: Plan) -> None:
        """Records what a leader is about to assign. It may do so twice with different plans, if the first was not
        accepted."""
        self._plans.setdefault(generation, []).append(plan)

    def on_assigned(self, member: str, generation: int, partitions: frozenset[int], began: float, at: float) -> None:
        """Records a response to SyncGroup; the request was sent at `began`."""
        self._check_not_fallen(member, generation, began)
        assigned = self._assigned.setdefault(generation, {})
        before = assigned.setdefault(member, partitions)
        self._check(
            before == partitions, f"{member} was assigned {_sorted(before)} in {generation}, then {_sorted(partitions)}"
        )
        for other, theirs in assigned.items():
            shared = theirs & partitions if other != member else None
            self._check(not shared, f"{member} and {other} were both assigned {_sorted(shared or ())} in {generation}")
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
        self._check(generation >= known, f"{member} was told of generation {generation} although {known} was known")

    def _check(self, holds: bool, sentence: str) -> None:
        if not holds:
            raise GroupHistoryError(f"{self._group}: {sentence}")


def _shown(assigned: Plan) -> str:
    return ", ".join(f"{member} {_sorted(partitions)}" for member, partitions in assigned.items())


def _sorted(partitions: Sequence[int] | frozenset[int]) -> list[int]:
    return sorted(partitions)
