"""Decides which offsets are committed to which group, from what queries have reported. It waits for nothing."""

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from tailrace.client.log_facts import Partition
from tailrace.pipeline.jobs.job_errors import WrongUsageError

from .query_progress import QueryEnded, QueryEvent, QueryProgress, QueryReads, QueryStarted

QUERIES_MAX = 200
"""The number of queries that are known at a time; of more, those that ended first are forgotten."""
REFRESH_SECONDS = 3600.0
"""How long a committed offset is left alone if it does not change. Brokers delete offsets that are old."""
RETRY_SECONDS = 30.0
"""How long a refused offset is left alone if it does not change. The group may have members only for a while."""
PLACEHOLDER = "{query}"
"""What a group name may contain in place of the name of the query, so that each query gets its own group."""

Offsets = dict[Partition, int]


class GroupNameError(WrongUsageError):
    """A name that cannot be that of a group; the message is one sentence."""


class KnownQuery(Struct):
    """A query that was seen, with its last progress."""

    query_id: str
    run_id: str
    name: str
    group: str
    last_run_id: str = ""
    """The run before this one, whose events may still arrive."""
    last_batch_id: int = -1
    """The last batch that an earlier run has done, as far as it is known."""
    batch_id: int = -1
    """The last batch that is done."""
    reads_batch_id: int = -1
    """The last batch whose positions were known while it ran."""
    positions: Mapping[Partition, int] = field(default_factory=dict)
    is_active: bool = True


class _Committed(Struct, frozen=True):
    """What a coordinator was last told about one partition, and when it is told again."""

    offset: int
    again_at: float
    is_refused: bool = False


class GroupPositions:
    """The queries that were seen, and what their groups know of them.

    A group is for display: Spark resumes from its checkpoint and never reads what was committed. So an offset may also
    go back, as it does if a checkpoint was deleted.
    """

    def __init__(self, group: str | None) -> None:
        """Takes the name of the group, which may contain `{query}`; None if nothing is committed.

        Raises GroupNameError.
        """
        if group is not None and not group.strip():
            raise GroupNameError("the group needs a name, such as 'spark-orders' or 'spark-{query}'")
        self._template = group
        self._queries: dict[str, KnownQuery] = {}
        """The queries by their id, in the order in which they were started."""
        self._committed: dict[tuple[str, Partition], _Committed] = {}

    @property
    def queries(self) -> list[KnownQuery]:
        """The known queries, in the order in which they were started."""
        return list(self._queries.values())

    def on_event(self, event: QueryEvent) -> None:
        """Takes any of the events."""
        match event:
            case QueryProgress():
                self.on_progress(event)
            case QueryStarted():
                self.on_started(event.query_id, event.run_id, event.name)
            case QueryReads():
                self.on_reads(event)
            case QueryEnded():
                self.on_ended(event.query_id, event.run_id)

    def on_started(self, query_id: str, run_id: str, name: str) -> None:
        """Notes that a query runs. The positions of its last run stay until it reports new ones."""
        known = self._queries.get(query_id)
        if known is not None and run_id in (known.run_id, known.last_run_id):
            return
        began = KnownQuery(query_id, run_id, name, self._group_of(query_id, name))
        if known is not None:
            del self._queries[query_id]
            began.last_run_id, began.positions = known.run_id, known.positions
            began.last_batch_id = known.batch_id if known.batch_id >= 0 else known.last_batch_id
        self._queries[query_id] = began
        self._forget()

    def on_progress(self, progress: QueryProgress) -> bool:
        """Takes the progress of a query. Returns whether it was news: events may come twice and late.

        A query has one run at a time. So progress of another run than the active one is that of an earlier run.
        """
        known = self._queries.get(progress.query_id)
        if known is None or not (known.is_active or progress.run_id in (known.run_id, known.last_run_id)):
            self.on_started(progress.query_id, progress.run_id, progress.name)
            known = self._queries[progress.query_id]
        if progress.run_id != known.run_id:
            return self._on_earlier(known, progress)
        if progress.batch_id < known.batch_id or (
            progress.batch_id == known.batch_id and progress.positions == known.positions
        ):
            return False
        known.batch_id = progress.batch_id
        known.positions = progress.positions
        return True

    def _on_earlier(self, known: KnownQuery, progress: QueryProgress) -> bool:
        """Takes the progress of a run before the known one. It counts until the known run has reported anything."""
        if known.batch_id >= 0 or known.reads_batch_id >= 0 or progress.batch_id < known.last_batch_id:
            return False
        is_news = progress.positions != known.positions
        known.last_batch_id, known.positions = progress.batch_id, progress.positions
        return is_news

    def on_reads(self, reads: QueryReads) -> None:
        """Notes how far a running trigger has read. Its end will say exactly.

        Within a trigger, the position only grows: while a trigger ends, its counts are gone before its progress is
        there. A new run starts at its checkpoint, which may be behind what the last run has read.
        """
        known = self._queries.get(reads.query_id)
        if known is None or known.run_id != reads.run_id or reads.batch_id <= known.batch_id:
            return
        before = known.positions if reads.batch_id == known.reads_batch_id else {}
        ahead = {each: max(offset, before.get(each, offset)) for each, offset in reads.positions.items()}
        known.positions = {**known.positions, **ahead}
        known.reads_batch_id = reads.batch_id

    def on_ended(self, query_id: str, run_id: str) -> None:
        """Notes that a run has ended. Its last positions stay, so that its lag is seen to grow."""
        known = self._queries.get(query_id)
        if known is not None and known.run_id == run_id:
            known.is_active = False

    def wanted(self) -> dict[str, Offsets]:
        """Returns the offsets that each group should have.

        If several queries of a group read a partition, the slowest running one decides. A query that has ended decides
        only where no running one does: otherwise it would hold the group back for ever.
        """
        ended: dict[str, Offsets] = {}
        running: dict[str, Offsets] = {}
        for query in self._queries.values():
            offsets = (running if query.is_active else ended).setdefault(query.group, {})
            for partition, offset in query.positions.items():
                offsets[partition] = min(offset, offsets.get(partition, offset)) if query.is_active else offset
        return {group: ended.get(group, {}) | running.get(group, {}) for group in {**ended, **running}}

    def due(self, now: float) -> dict[str, Offsets]:
        """Returns the offsets that should be committed now: new ones, and those that were not committed for long."""
        found: dict[str, Offsets] = {}
        for group, offsets in self.wanted().items() if self._template is not None else ():
            due = {each: offset for each, offset in offsets.items() if self._is_due(group, each, offset, now)}
            if due:
                found[group] = due
        return found

    def on_committed(self, group: str, offsets: Mapping[Partition, int], now: float) -> None:
        """Notes what a coordinator has accepted."""
        for partition, offset in offsets.items():
            self._committed[group, partition] = _Committed(offset, now + REFRESH_SECONDS)

    def on_refused(self, group: str, offsets: Mapping[Partition, int], now: float) -> None:
        """Notes what a coordinator has refused. It is due again when it changes, and after some time.

        That time is short only while a query reads the partition: the topic of one that has ended may be deleted.
        """
        read = {each for query in self.queries if query.is_active and query.group == group for each in query.positions}
        for partition, offset in offsets.items():
            again_at = now + (RETRY_SECONDS if partition in read else REFRESH_SECONDS)
            self._committed[group, partition] = _Committed(offset, again_at, is_refused=True)

    @property
    def has_refused(self) -> bool:
        """Whether a coordinator has refused the last commit of any partition."""
        return any(each.is_refused for each in self._committed.values())

    def _is_due(self, group: str, partition: Partition, offset: int, now: float) -> bool:
        last = self._committed.get((group, partition))
        return last is None or last.offset != offset or now >= last.again_at

    def _group_of(self, query_id: str, name: str) -> str:
        return "" if self._template is None else self._template.replace(PLACEHOLDER, name or query_id)

    def _forget(self) -> None:
        """Keeps the bound on known queries, and what was committed for forgotten ones."""
        excess = len(self._queries) - QUERIES_MAX
        if excess <= 0:
            return
        for each in list(self._oldest_first())[:excess]:
            del self._queries[each]
        kept = {(group, each) for group, offsets in self.wanted().items() for each in offsets}
        self._committed = {key: value for key, value in self._committed.items() if key in kept}

    def _oldest_first(self) -> Iterator[str]:
        yield from (each.query_id for each in self.queries if not each.is_active)
        yield from (each.query_id for each in self.queries if each.is_active)
