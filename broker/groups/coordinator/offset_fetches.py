"""Handles OffsetFetch.

A client that requires stable offsets must not get an offset that the end of an open transaction may replace. Kafka
refuses such partitions, and its clients retry. Here the request waits until the markers are written, for a while.
"""

import math
from collections.abc import Set

from msgspec import Struct

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.offsets.offset_fetching import FetchableOffsets, ResponseBudget, fetch_offsets, is_unstable
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup

from .group_table import GroupTable
from .offset_commits import TOPICS_BY_ID_FROM
from .offset_table import OffsetTable

HELD_SECONDS_MAX = 5.0
"""How long a fetch waits for the ends of transactions. Clients wait much longer for the response."""
HELD_FETCHES_MAX = 1000
"""How many fetches of one coordinator may wait at the same time. Others are refused at once, and clients retry."""


class _Held(Struct, eq=False, frozen=True):
    """A fetch that waits for the ends of transactions."""

    asked: OffsetFetchRequestGroup
    api_version: int
    budget: ResponseBudget
    waiter: Waiter
    deadline: float


class OffsetFetches:
    def __init__(self, table: GroupTable, offsets: OffsetTable) -> None:
        self._table = table
        self._offsets = offsets
        self._held: dict[_Held, None] = {}
        """The fetches that wait, in the order of their deadlines."""

    @property
    def deadline(self) -> float:
        """The time at which to call `on_deadline`."""
        return next(iter(self._held)).deadline if self._held else math.inf

    def waiters(self) -> list[Waiter]:
        """Takes out the fetches that wait, because this coordinator ends."""
        held, self._held = self._held, {}
        return [each.waiter for each in held]

    def fetch(
        self,
        asked: OffsetFetchRequestGroup,
        api_version: int,
        budget: ResponseBudget,
        waiter: Waiter,
        moment: Moment,
        *,
        require_stable: bool = False,
    ) -> None:
        """Responds with an OffsetFetchResponseGroup, now or when its offsets are stable."""
        if require_stable and len(self._held) < HELD_FETCHES_MAX and self._is_unstable(asked, api_version):
            self._held[_Held(asked, api_version, budget, waiter, moment.now + HELD_SECONDS_MAX)] = None
            return
        self._respond(asked, api_version, budget, waiter, require_stable=require_stable)

    def on_fewer_pending(self, group_ids: Set[str]) -> None:
        """Responds to the fetches that wait no longer, because these groups have fewer pending offsets."""
        for held in [each for each in self._held if each.asked.group_id in group_ids]:
            if not self._is_unstable(held.asked, held.api_version):
                self._release(held)

    def on_deadline(self, moment: Moment) -> None:
        """Responds to the fetches that have waited for too long."""
        for held in [each for each in self._held if each.deadline <= moment.now]:
            self._release(held)

    def _release(self, held: _Held) -> None:
        del self._held[held]
        try:
            self._respond(held.asked, held.api_version, held.budget, held.waiter, require_stable=True)
        except KafkaError as error:
            self._table.output.refuse(held.waiter, error)

    def _respond(
        self,
        asked: OffsetFetchRequestGroup,
        api_version: int,
        budget: ResponseBudget,
        waiter: Waiter,
        *,
        require_stable: bool,
    ) -> None:
        group = self._table.groups.get(asked.group_id)
        if group is not None:
            group.check_fetch(asked.member_id, asked.member_epoch)
        offsets = self._fetchable(require_stable=require_stable)
        topics = fetch_offsets(asked, offsets, self._table.cluster, budget, by_id=api_version >= TOPICS_BY_ID_FROM)
        self._table.output.respond(waiter, OffsetFetchResponseGroup(asked.group_id, topics))

    def _is_unstable(self, asked: OffsetFetchRequestGroup, api_version: int) -> bool:
        offsets = self._fetchable(require_stable=True)
        return is_unstable(asked, offsets, self._table.cluster, by_id=api_version >= TOPICS_BY_ID_FROM)

    def _fetchable(self, *, require_stable: bool) -> FetchableOffsets:
        return FetchableOffsets(self._offsets.committed, self._offsets.pending if require_stable else None)
