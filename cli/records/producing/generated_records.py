"""Makes records for tests and load: a seed always gives the same keys, values and partitions."""

from collections.abc import Sequence

from tailrace.cli.records.formats.produced_lines import Entry
from tailrace.runtime.chance import Chance


class GeneratedRecords:
    """A series of records. Each value is a JSON object with the number of the record, filled up with random digits."""

    def __init__(self, chance: Chance, value_bytes: int, key_count: int, partitions: Sequence[int]) -> None:
        """Takes the size of each value, the number of keys (0 for no keys), and the partitions of the topic."""
        self._chance = chance
        self._value_bytes = value_bytes
        self._key_count = key_count
        self._partitions = partitions
        self._made = 0

    def take(self, count: int) -> list[Entry]:
        """Returns the next records."""
        first = self._made
        self._made += count
        return [self._entry(number) for number in range(first, self._made)]

    def _entry(self, number: int) -> Entry:
        if self._key_count:
            key, partition = b"key-%d" % self._chance.below(self._key_count), None
        else:
            key, partition = None, self._partitions[number % len(self._partitions)]
        return Entry(key, self._value(number), partition=partition)

    def _value(self, number: int) -> bytes:
        frame = b'{"number": %d, "filler": "%b"}'
        digits = self._value_bytes - len(frame % (number, b""))
        if digits < 0:
            return b"%0*d" % (self._value_bytes, number % 10**self._value_bytes)
        return frame % (number, b"%0*x" % (digits, self._chance.below(16**digits)))
