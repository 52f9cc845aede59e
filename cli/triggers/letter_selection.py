"""Which dead letters a command is about: by their places, by the error, and by the time of the failure."""

import argparse
import re
from collections.abc import Mapping, Sequence
from fnmatch import translate

from msgspec import Struct

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.output.times import since
from tailrace.protocol.batches.records import Record
from tailrace.trigger.dead_letters.dead_letter import Letter

_PLACE = re.compile(r"([0-9]{1,9})/([0-9]{1,18})(?:-([0-9]{1,18}))?")


class LetterSelection(Struct, frozen=True):
    """The letters that fulfil all of these conditions."""

    places: Mapping[int, Sequence[range]] | None = None
    """The offsets by partition; None for all."""
    error: re.Pattern[str] | None = None
    """A pattern for the class of the error, or for the class and its message, as in `KeyError: amount`."""
    since_ms: int | None = None
    until_ms: int | None = None
    """The time before which the letter was written."""

    @property
    def is_everything(self) -> bool:
        """Whether there is no condition."""
        return self == LetterSelection()

    def may_have(self, partition: int, offset: int) -> bool:
        """Whether a letter at this place may be selected."""
        return self.places is None or any(offset in each for each in self.places.get(partition, ()))

    def has(self, partition: int, record: Record, letter: Letter) -> bool:
        """Whether the letter in a record of the partition is selected."""
        return (
            self.may_have(partition, record.offset)
            and (self.since_ms is None or record.timestamp >= self.since_ms)
            and (self.until_ms is None or record.timestamp < self.until_ms)
            and (self.error is None or any(map(self.error.match, (letter.error, whole_error(letter)))))
        )


def whole_error(letter: Letter) -> str:
    """Returns the class and the message of the error, as Python prints them."""
    return ": ".join(each for each in (letter.error or letter.kind, letter.message) if each)


def add_conditions(parser: argparse.ArgumentParser) -> None:
    """Adds the options that select letters by error and time."""
    which = parser.add_argument_group("letters")
    which.add_argument(
        "--error",
        metavar="PATTERN",
        help="Only letters with this error: its class, or a pattern for class and message such as 'KeyError: *'.",
    )
    which.add_argument("--since", metavar="WHEN", type=since, help="Only letters from this time or duration ago on.")
    which.add_argument("--until", metavar="WHEN", type=since, help="Only letters before this time or duration ago.")


def selection_of(arguments: argparse.Namespace, now_ms: int, places: str = "") -> LetterSelection:
    """Returns the letters that the options, and the given places, select. Raises UsageError."""
    return LetterSelection(
        _places(places.split(",")) if places else None,
        None if arguments.error is None else re.compile(translate(arguments.error)),
        None if arguments.since is None else arguments.since.timestamp_ms(now_ms),
        None if arguments.until is None else arguments.until.timestamp_ms(now_ms),
    )


def place(text: str) -> tuple[int, range]:
    """Reads the place of a letter, or of several with neighbouring offsets. Raises UsageError."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise UsageError(f"{text}: expected PARTITION/OFFSET or PARTITION/FIRST-LAST, such as 0/17 or 0/17-20")
    offsets = range(int(found[2]), int(found[3] or found[2]) + 1)
    if not offsets:
        raise UsageError(f"{text}: the last offset is before the first one")
    return int(found[1]), offsets


def _places(texts: Sequence[str]) -> Mapping[int, Sequence[range]]:
    places: dict[int, list[range]] = {}
    for partition, offsets in map(place, texts):
        places.setdefault(partition, []).append(offsets)
    return places
