"""Carries out what was planned for a request: changes are written one after the other, and waited for side by side."""

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
"""A client that does not want to wait for the effect still wants it written."""

I = TypeVar("I")  # noqa: E741 - an item of a request
R = TypeVar("R")


class Planned(Struct, Generic[R], frozen=True):
    result: R
    writes: tuple[KvAction, ...]


Plans = list[Planned[R] | KafkaError]
"""For each thing asked for, in the same order."""

Condition = Callable[[], bool]


class Deadlines:
    """Until when a request waits for its write, and for the effect."""

    def __init__(self, timeout_ms: int) -> None:
        now = trio.current_time()
        self.at = now + min(max(timeout_ms, 0), TIMEOUT_MS_MAX) / 1000
        self.writing_at = max(self.at, now + WRITE_SECONDS_MIN)


class ChangeWriter:
    def __init__(self, writes: ConfirmedWrites) -> None:
        self._writes = writes
        self._changing = trio.Lock()
        """Held from planning a change until the Local Store has it: the next one is planned from what it made."""

    async def write(
        self, items: Sequence[I], plan: Callable[[Sequence[I]], Plans[R]], ends: Deadlines
    ) -> list[R | KafkaError]:
        """For each item what was planned as its result, once that is written, or why it is not.

        What somebody else changed in the meantime is planned again, from what it is by then.
        """
        results: list[R | KafkaError] = [timed_out("it could not be written to the store in time")] * len(items)
        todo = list(range(len(items)))
        try:
            with trio.move_on_at(ends.writing_at):
                async with self._changing:
                    while todo:
                        todo = await self._write_once(todo, items, plan, results)
        except KafkaError as error:
            for place in todo:
                results[place] = error
        return results

    async def when(
        self, reached: Sequence[Condition | None], results: Sequence[R | KafkaError], ends: Deadlines
    ) -> list[R | KafkaError]:
        """The results, once what belongs to each is reached; an error for those where it is not in time."""
        waiting = dict(enumerate(reached))

        def all_reached() -> bool:
            for place in [place for place, each in waiting.items() if each is None or each()]:
                del waiting[place]
            return not waiting

        late = timed_out("it is stored, but has not taken effect in time; it may still do so")
        try:
            with trio.move_on_at(ends.at):
                await self._writes.wait_until(all_reached)
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
        """Those that have to be planned again."""
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
    """A plan for one item that may raise, as one for all of them."""

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
    return [each if isinstance(each, KafkaError) else each.result for each in plans]


def result_or_raise(outcome: R | KafkaError) -> R:
    if isinstance(outcome, KafkaError):
        raise outcome
    return outcome


def timed_out(why: str) -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, why)
