"""Replays dead letters: sends the original records to a topic again, and keeps in a group which ones were replayed.

The group is written after each portion of letters. So a replay that is interrupted goes on where it stopped, and
replays at most one portion twice.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from tailrace.cli.output.printing import counted
from tailrace.client.group_client import GroupClient
from tailrace.client.group_facts import Progress as Committed
from tailrace.client.log_facts import LogEnds, Page, Partition
from tailrace.client.outgoing_records import RecordRefusedError
from tailrace.client.record_producer import RecordProducer
from tailrace.client.server_connection import RefusedError, answer_of, answered
from tailrace.trigger.dead_letters.dead_letter import is_unreadable, read_letter, replayed
from tailrace.trigger.dead_letters.replay_progress import ReplayProgress
from tailrace.trigger.work import Output

from .letter_reading import FoundLetter
from .letter_selection import LetterSelection

PORTION_LETTERS = 500
PORTION_BYTES = 4 * 2**20
"""The size of a portion after which the progress is committed."""


def replay_group(topic: str) -> str:
    """Returns the group that keeps which letters of a topic were replayed."""
    return f"{topic}.replay"


class ReplayCounts(Struct):
    """What became of the letters that were read."""

    replayed: dict[str, int] = field(default_factory=dict)
    """The number of letters by the topic to which they went."""
    before: int = 0
    """Selected letters that were replayed before."""
    without_record: list[str] = field(default_factory=list)
    """The places of letters that do not have the original record."""
    others: int = 0
    """Records that are no dead letters."""

    @property
    def sent(self) -> int:
        return sum(self.replayed.values())


class LetterReplay:
    """One replay. With `producer` None it only counts what would be replayed."""

    def __init__(
        self,
        producer: RecordProducer | None,
        groups: GroupClient,
        group: str,
        progress: Mapping[Partition, ReplayProgress],
        selection: LetterSelection,
        to: str | None,
        *,
        again: bool,
    ) -> None:
        """Takes the topic that gets all records, or None for their original topics; `again` replays letters that were
        replayed before."""
        self._producer = producer
        self._groups = groups
        self._group = group
        self._progress = progress
        self._selection = selection
        self._to = to
        self._again = again
        self._portion: list[tuple[FoundLetter, Output]] = []
        self._portion_bytes = 0
        self._changed: set[Partition] = set()
        """The partitions whose progress is not committed."""
        self.counts = ReplayCounts()

    async def take(self, page: Page) -> None:
        """Takes the next records, and replays a portion when it is full. Raises RefusedError and UnreachableError."""
        self._changed.add(page.partition)
        _add_gaps(self._progress[page.partition], page)
        for record in page.records:
            letter = read_letter(record)
            if letter is None:
                self.counts.others += 1
            elif self._selection.has(page.partition.number, record, letter):
                self._select(FoundLetter(page.partition, record, letter))
            if len(self._portion) >= PORTION_LETTERS or self._portion_bytes >= PORTION_BYTES:
                await self.replay_portion()

    def _select(self, found: FoundLetter) -> None:
        if self._progress[found.partition].is_done(found.record.offset) and not self._again:
            self.counts.before += 1
        elif is_unreadable(found.letter) or found.letter.omitted_bytes >= 0:
            self.counts.without_record.append(found.place)
        else:
            output = replayed(found.letter, self._to, found.whole_place)
            self._portion.append((found, output))
            self._portion_bytes += len(output.value or b"")

    async def replay_portion(self) -> None:
        """Replays the letters that were selected, and commits the progress.

        Raises RefusedError and UnreachableError.
        """
        portion, self._portion, self._portion_bytes = self._portion, [], 0
        if self._producer is not None and portion:
            try:
                await self._producer.send([output for _, output in portion])
            except RecordRefusedError as refused:
                place = portion[refused.number][0].place
                raise RefusedError(f"letter {place} cannot be replayed: {refused}", refused.code) from refused
        for found, output in portion:
            self._progress[found.partition].add(found.record.offset, found.record.offset + 1)
            self.counts.replayed[output.topic] = self.counts.replayed.get(output.topic, 0) + 1
        changed, self._changed = {each: self._progress[each] for each in self._changed}, set()
        if self._producer is None or not changed:
            return
        answers = await self._groups.commit(
            self._group,
            {each: progress.offset for each, progress in changed.items()},
            {each: progress.metadata for each, progress in changed.items()},
        )
        for partition, answer in answers.items():
            answer_of(partition, answer)


def _add_gaps(progress: ReplayProgress, page: Page) -> None:
    """Notes the offsets that have no letter as done, so that the committed offset passes them."""
    offset = page.first
    for record in page.records:
        progress.add(offset, record.offset)
        offset = record.offset + 1
        if read_letter(record) is None:
            progress.add(record.offset, offset)
    progress.add(offset, page.end)


async def replay_progress(
    groups: GroupClient, group: str, logs: Mapping[Partition, LogEnds]
) -> dict[Partition, ReplayProgress]:
    """Returns which letters were replayed, as the group says. Raises RefusedError and UnreachableError."""
    kept = answered(await groups.committed_in(group, logs))
    return {each: _progress(log, kept[each]) for each, log in logs.items()}


def _progress(log: LogEnds, kept: Committed | None) -> ReplayProgress:
    if kept is None or kept.committed is None or kept.committed > log.end:  # the topic was made anew
        return ReplayProgress(log.start)
    return ReplayProgress(max(log.start, kept.committed), kept.metadata)


def summary(counts: ReplayCounts, topic: str) -> Sequence[str]:
    """Returns sentences about letters that were not replayed."""
    sentences = []
    if counts.before:
        sentences.append(
            f"{counted(counts.before, 'selected letter was', 'selected letters were')} replayed before; --again "
            "replays letters again"
        )
    if counts.without_record:
        shown = ", ".join(counts.without_record[:5]) + (", …" if len(counts.without_record) > 5 else "")
        sentences.append(
            f"not replayed, because the original record is missing or cannot be decoded: {shown}; "
            f"`tailrace trigger dead-letters show {topic} {counts.without_record[0]}` says more"
        )
    if counts.others:
        are_none = "is no dead letter" if counts.others == 1 else "are no dead letters"
        sentences.append(f"{counted(counts.others, 'record')} of {topic} {are_none}")
    return sentences
