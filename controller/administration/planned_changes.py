"""Writes planned changes one after the other, and waits concurrently until they have taken effect."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Generic, TypeVar

import trio
from msgspec import Struct

from tailrace.controller.key_value.interface import Change
from tailrace.controller.state.actions import KvAction
from tailrace.controller.workflow.confirmed_writes import ConfirmedWrites
from tailrace.protocol.error_codes import ErrorCode, KafkaError

TIMEOUT_MS_MAX = 120_000
WRITE_SECONDS_MIN = 5
"""How long the write itself may take at least, even if the client does not wait for the effect."""

I = TypeVar("I")  # noqa: E741 - an item of a request
R = TypeVar("R")


class Planned(Struct, Generic[R], frozen=True):
    """One planned change: its result for the caller, and the writes that it needs."""

    result: R
    writes: tuple[KvAction, ...]


Plans = list[Planned[R] | KafkaError]
"""The plan, or the error, for each item of a request, in the same order."""

Condition = Callable[[], bool]


class Deadlines:
    """The times until which a request waits for its write, and for the effect."""

    def __init__(self, timeout_ms: int) -> None:
        now = trio.current_time()
        self.effect_at = now + min(max(timeout_ms, 0), TIMEOUT_MS_MAX) / 1000
        self.write_at = max(self.effect_at, now + WRITE_SECONDS_MIN)


class ChangeWriter:
    """Plans, writes and awaits the changes of requests."""

    def __init__(self, writes: ConfirmedWrites) -> None:
        self._writes = writes
        self._changing = trio.Lock()
        """Held while a change is planned and until the Local Store has it, so that the next plan is based on it."""

    async def write(
        self, items: Sequence[I], plan: Callable[[Sequence[I]], Plans[R]], deadlines: Deadlines
    ) -> list[R | KafkaError]:
        """Plans and writes the items. Returns for each item its planned result once it is written, or an error.

        An item whose objects were changed by others in the meantime is planned again.
        """
        results: list[R | KafkaError] = [timed_out("it could not be written to the store in time")] * len(items)
        todo = list(range(len(items)))
        try:
            with trio.move_on_at(deadlines.write_at):
                async with self._changing:
                    while todo:
                        todo = await self._write_once(todo, items, plan, results)
        except KafkaError as error:
            for place in todo:
                results[place] = error
        return results

    async def wait_for(
        self, conditions: Sequence[Condition | None], results: Sequence[R | KafkaError], deadlines: Deadlines
    ) -> list[R | KafkaError]:
        """Waits for the conditions of the results. Returns an error for each result whose condition is late."""
        waiting = dict(enumerate(conditions))

        def are_all_reached() -> bool:
            for place in [place for place, each in waiting.items() if each is None or each()]:
                del waiting[place]
            return not waiting

        late = timed_out("the change is stored, but has not taken effect in time; it may still do so")
        try:
            with trio.move_on_at(deadlines.effect_at):
                await self._writes.wait_until(are_all_reached)
        except KafkaError as error:
            late = error
        return [late if place in waiting else result for place, result in enumerate(results)]

    async def _write_once(
        self,
        todo: Sequence[int],
        items: Sequence[I],
        plan: Callable[[Sequence[I]], Plans[R]],
        results: list[R | KafkaError],
    ) -> list[int]:
        """Plans and writes once, and returns the places of the items that have to be planned again."""
        planned: list[tuple[int, R, list[Change]]] = []
        for place, each in zip(todo, plan([items[place] for place in todo]), strict=True):
            try:
                possible = result_or_raise(each)
                planned.append((place, possible.result, [self._writes.change_of(write) for write in possible.writes]))
            except KafkaError as error:
                results[place] = error
        written = iter(await self._writes.write_changes([change for _, _, changes in planned for change in changes]))
        again = []
        for place, result, changes in planned:
            its_writes = list(islice(written, len(changes)))
            if all(its_writes):
                results[place] = result
            else:
                again.append(place)
        return again


def plan_each(plan: Callable[[I], Planned[R]]) -> Callable[[Sequence[I]], Plans[R]]:
    """Makes a plan for many items from a plan for one item, which may raise KafkaError."""

    def plans(items: Sequence[I]) -> Plans[R]:
        outcomes: Plans[R] = []
        for item in items:
            try:
                outcomes.append(plan(item))
            except KafkaError as error:
                outcomes.append(error)
        return outcomes

    return plans


def without_writes(plans: Plans[R]) -> list[R | KafkaError]:
    """Returns the planned results, for a request that should only be validated."""
    return [each if isinstance(each, KafkaError) else each.result for each in plans]


def result_or_raise(outcome: R | KafkaError) -> R:
    """Returns a result, or raises the error in its place."""
    if isinstance(outcome, KafkaError):
        raise outcome
    return outcome


def timed_out(why: str) -> KafkaError:
    """Returns the error for a request that took too long."""
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, why)
