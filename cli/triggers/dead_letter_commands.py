"""`tailrace trigger dead-letters …`: lists the records that a trigger gave up, shows why, and replays them."""

import argparse
import heapq
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

import trio

from tailrace.cli.options.sc_options import AskBrokers, Command, StoppedError, UsageError, say, show_documents
from tailrace.cli.options.spu_options import spu_command
from tailrace.cli.output.printing import content_document, counted, duration_text, plain, shortened, time_text
from tailrace.cli.output.progress import Progress
from tailrace.cli.output.tables import fields, table
from tailrace.client.group_client import GroupClient
from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import LogEnds, Page, Partition
from tailrace.client.record_producer import RecordProducer
from tailrace.client.server_connection import RefusedError, UnreachableError, answered
from tailrace.client.spu_client import SpuClient
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.chance import Chance, RandomChance
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.process import Stop, run_stoppable
from tailrace.runtime.wall_clock import SystemClock, WallClock
from tailrace.trigger.dead_letters.replay_progress import ReplayProgress

from .letter_reading import FoundLetter, bounds_of, letter_partitions, letters
from .letter_replay import LetterReplay, ReplayCounts, replay_group, replay_progress, summary
from .letter_selection import LetterSelection, add_conditions, place, selection_of, whole_error

NAME = "trigger dead-letters"
LIMIT = 100
_ERROR_CHARACTERS = 60
_VALUE_CHARACTERS = 10_000

Kept = Mapping[Partition, ReplayProgress]


def _topic_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="Topic of dead letters, such as orders.billing.dead.")


def _group_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--group", metavar="GROUP", help="Group that keeps which letters were replayed (default: TOPIC.replay)."
    )


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 6 or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a number of letters from 1 to 999999")
    return int(text)


# list


def _list_options(parser: argparse.ArgumentParser) -> None:
    _topic_option(parser)
    add_conditions(parser)
    parser.add_argument(
        "--limit", metavar="N", type=_count, default=LIMIT, help=f"Show the last N letters (default: {LIMIT})."
    )
    _group_option(parser)


def listing(wall_clock: WallClock) -> AskBrokers:
    """Makes the function that lists letters."""

    async def list_letters(spus: SpuClient, arguments: argparse.Namespace) -> None:
        now_ms = wall_clock.now_ms()
        client, selection = LogClient(spus), selection_of(arguments, now_ms)
        logs = answered(await client.ends(await letter_partitions(client, arguments.topic), only_stable=True))
        found = await _last(client, logs, selection, arguments.limit)
        kept = await replay_progress(GroupClient(spus), arguments.group or replay_group(arguments.topic), logs)
        documents = [_summary_document(each, kept) for each in found]
        show_documents(arguments, documents, lambda: _table(found, kept, now_ms))

    return list_letters


async def _last(
    client: LogClient, logs: Mapping[Partition, LogEnds], selection: LetterSelection, limit: int
) -> list[FoundLetter]:
    """Returns the last selected letters of all partitions, the oldest first."""
    bounds = await bounds_of(client, logs, selection)
    if selection.is_everything:
        bounds = {each: LogEnds(max(log.start, log.end - limit), log.end) for each, log in bounds.items()}
    newest: list[tuple[int, Partition, int, FoundLetter]] = []
    async for each in letters(client, bounds, selection):
        entry = (each.record.timestamp, each.partition, each.record.offset, each)
        if len(newest) < limit:
            heapq.heappush(newest, entry)
        else:
            heapq.heappushpop(newest, entry)
    return [entry[3] for entry in sorted(newest)]


def _table(found: Sequence[FoundLetter], kept: Kept, now_ms: int) -> str:
    if not found:
        return "There are no such dead letters."
    rows = (
        (
            each.place,
            each.letter.origin,
            each.letter.attempts if each.letter.attempts >= 0 else None,
            _cut(whole_error(each.letter)),
            each.letter.position,
            duration_text(max(now_ms - each.record.timestamp, 0) / 1000),
            "yes" if _is_replayed(each, kept) else "no",
        )
        for each in found
    )
    return table(("LETTER", "RECORD", "ATTEMPTS", "ERROR", "WHERE", "AGE", "REPLAYED"), rows)


def _cut(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= _ERROR_CHARACTERS else line[:_ERROR_CHARACTERS] + "…"


def _is_replayed(found: FoundLetter, kept: Kept) -> bool:
    return kept[found.partition].is_done(found.record.offset)


def _summary_document(found: FoundLetter, kept: Kept) -> dict[str, object]:
    letter = found.letter
    return {
        "letter": found.place,
        "time": time_text(found.record.timestamp),
        "record": {
            "topic": letter.origin.shard.topic,
            "partition": letter.origin.shard.number,
            "offset": letter.origin.offset,
            "time": time_text(letter.origin.timestamp_ms),
        },
        "group": letter.origin.group,
        "attempts": letter.attempts,
        "kind": letter.kind,
        "error": letter.error,
        "message": letter.message,
        "position": letter.position,
        "replayed": _is_replayed(found, kept),
    }


# show


def _show_options(parser: argparse.ArgumentParser) -> None:
    _topic_option(parser)
    parser.add_argument("letter", metavar="PARTITION/OFFSET", help="The letter, as the list shows it.")
    _group_option(parser)


async def _show(spus: SpuClient, arguments: argparse.Namespace) -> None:
    number, offsets = place(arguments.letter)
    if len(offsets) != 1:
        raise UsageError(f"{arguments.letter}: expected one letter, such as 0/17")
    client, partition = LogClient(spus), Partition(arguments.topic, number)
    if partition not in await letter_partitions(client, arguments.topic):
        raise RefusedError(f"there is no partition {partition}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    logs = answered(await client.ends([partition], only_stable=True))
    selection = LetterSelection({number: [offsets]})
    found = [each async for each in letters(client, await bounds_of(client, logs, selection), selection)]
    if not found:
        log = logs[partition]
        raise RefusedError(
            f"there is no dead letter {partition}/{offsets.start}; the log has the offsets {log.start} to {log.end - 1}"
            if log.end > log.start
            else f"there is no dead letter {partition}/{offsets.start}; the log is empty",
            ErrorCode.OFFSET_OUT_OF_RANGE,
        )
    kept = await replay_progress(GroupClient(spus), arguments.group or replay_group(arguments.topic), logs)
    show_documents(arguments, _whole_document(found[0], kept), lambda: _whole_text(found[0], kept))


def _whole_document(found: FoundLetter, kept: Kept) -> dict[str, object]:
    letter = found.letter
    return _summary_document(found, kept) | {
        "key": content_document(letter.key),
        "value": content_document(letter.value),
        "headers": [{"name": name, "value": content_document(value)} for name, value in letter.headers],
        "traceback": letter.traceback,
    }


def _whole_text(found: FoundLetter, kept: Kept) -> str:
    letter = found.letter
    text = fields(
        (
            ("Letter", found.whole_place),
            ("Written", time_text(found.record.timestamp)),
            ("Record", letter.origin),
            ("Produced", None if letter.origin.timestamp_ms < 0 else time_text(letter.origin.timestamp_ms)),
            ("Group", letter.origin.group),
            ("Attempts", letter.attempts if letter.attempts >= 0 else None),
            ("Kind", letter.kind),
            ("Error", whole_error(letter)),
            ("Where", letter.position),
            ("Replayed", "yes" if _is_replayed(found, kept) else "no"),
            ("Key", shortened(letter.key)),
            *((f"Header {name}", shortened(value)) for name, value in letter.headers),
        )
    )
    value = (
        "null" if letter.value is None else plain(letter.value[:_VALUE_CHARACTERS].decode(errors="backslashreplace"))
    )
    if letter.omitted_bytes >= 0:
        value = f"left out, because the letter would have been too large: {letter.omitted_bytes} bytes"
    traceback = "\n".join(f"  {plain(line)}" for line in letter.traceback.splitlines())
    return "\n".join([text, "Value:", f"  {value}", *(["Traceback:", traceback] if traceback else [])])


# replay


def _replay_options(parser: argparse.ArgumentParser) -> None:
    _topic_option(parser)
    add_conditions(parser)
    parser.add_argument("--letters", metavar="PLACES", help="Only these letters, such as 0/17,2/3-9 (default: all).")
    parser.add_argument("--to", metavar="TOPIC", help="Topic to send to (default: the original topic of each record).")
    parser.add_argument("--again", action="store_true", help="Also replay letters that were replayed before.")
    parser.add_argument("--dry-run", action="store_true", help="Only show how many records would be sent.")
    _group_option(parser)


def replaying(wall_clock: WallClock, chance: Chance) -> AskBrokers:
    """Makes the function that replays letters."""

    async def replay(spus: SpuClient, arguments: argparse.Namespace) -> None:
        topic, to = arguments.topic, arguments.to
        if to == topic:
            raise UsageError(f"--to {to}: it is the topic of the dead letters itself")
        selection = selection_of(arguments, wall_clock.now_ms(), arguments.letters or "")
        client, groups = LogClient(spus), GroupClient(spus)
        logs = answered(await client.ends(await letter_partitions(client, topic), only_stable=True))
        if to is not None:
            answered(await client.partitions([to]))
        group = arguments.group or replay_group(topic)
        kept = await replay_progress(groups, group, logs)
        bounds = await bounds_of(client, logs, selection)
        if selection.places is None and not arguments.again:
            bounds = {each: LogEnds(max(log.start, kept[each].offset), log.end) for each, log in bounds.items()}
        producer = None if arguments.dry_run else RecordProducer(spus, wall_clock, chance)
        replay = LetterReplay(producer, groups, group, kept, selection, to, again=arguments.again)
        bar = Progress(
            sum(max(0, log.end - log.start) for log in bounds.values()),
            wanted=False,
            doing="replaying",
            amount="{:,} letters".format,
        )

        async def work(stop: Stop) -> None:
            try:
                async with trio.open_nursery() as nursery:
                    if producer is not None:
                        await nursery.start(producer.run)
                    await _replay_all(replay, client.pages(bounds), bar, stop)
                    nursery.cancel_scope.cancel()
            except BaseExceptionGroup as group:
                raise first_error(group) from None

        try:
            stop = await run_stoppable(work)
        except RefusedError as error:
            raise RefusedError(f"{error}; {_sent(replay.counts)} before", error.code) from error
        except UnreachableError as error:
            raise UnreachableError(f"{error}; {_sent(replay.counts)} before") from error
        finally:
            bar.clear()
        documents: list[dict[str, object]] = [
            {"topic": name, "letters": count} for name, count in sorted(replay.counts.replayed.items())
        ]
        show_documents(arguments, documents, lambda: _replayed_table(replay.counts, is_dry=arguments.dry_run))
        for sentence in summary(replay.counts, topic):
            say(f"{NAME} replay", sentence)
        if stop.signal is not None:
            raise StoppedError(
                f"stopped after {_sent(replay.counts)}; the same command goes on with the others", stop.signal
            )

    return replay


async def _replay_all(replay: LetterReplay, read: AsyncGenerator[Page, None], bar: Progress, stop: Stop) -> None:
    """Replays the letters of all pages, or of those that were read before a stop was asked for."""
    async with aclosing(read):
        async for page in read:
            await replay.take(page)
            bar.add(page.end - page.first)
            if stop.is_asked():
                break
    await replay.replay_portion()


def _replayed_table(counts: ReplayCounts, *, is_dry: bool) -> str:
    if not counts.replayed:
        return "There is nothing to replay."
    title = "WOULD BE REPLAYED" if is_dry else "REPLAYED"
    return table(("TOPIC", title), sorted(counts.replayed.items()))


def _sent(counts: ReplayCounts) -> str:
    return counted(counts.sent, "letter was replayed", "letters were replayed")


def commands(wall_clock: WallClock, chance: Chance) -> dict[str, Command]:
    """Makes the commands."""
    return {
        "list": spu_command(f"{NAME} list", _list_options, listing(wall_clock), is_watchable=True),
        "show": spu_command(f"{NAME} show", _show_options, _show),
        "replay": spu_command(f"{NAME} replay", _replay_options, replaying(wall_clock, chance)),
    }


COMMANDS = commands(SystemClock(), RandomChance())
