"""Which partitions `tailrace consume` reads: topics, some of their partitions, and patterns of topics.

Patterns are those of shells, because names of topics contain dots, which mean something else in regular expressions.
"""

import re
from collections.abc import Sequence

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.options.spu_options import named_topic
from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, unless_refused

from .record_filters import PATTERN_CHARACTERS, pattern

REFRESH_SECONDS = 5.0
"""How often to look for new topics and partitions with `--follow`."""
INTERNAL_PREFIX = "_"
"""How the names of internal topics begin. A pattern matches them only if it begins in this way too."""


class TopicChoice:
    """The topics of a command line."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Reads topics, topics with partitions, and patterns. Raises UsageError."""
        self.names: dict[str, set[int] | None] = {}
        """The named topics, with the partitions to read; None stands for all."""
        self.patterns: dict[str, re.Pattern[str]] = {}
        for text in texts:
            topic, numbers = named_topic(text)
            if not PATTERN_CHARACTERS.isdisjoint(topic):
                if numbers is not None:
                    raise UsageError(f"{text}: a pattern stands for all partitions of its topics")
                self.patterns[topic] = pattern(topic)
            else:
                known = self.names.get(topic, set())
                self.names[topic] = None if numbers is None or known is None else known | set(numbers)

    @property
    def names_partitions(self) -> bool:
        """Whether some topics are read only in part."""
        return any(numbers is not None for numbers in self.names.values())

    def matches(self, topic: str) -> bool:
        """Whether a pattern stands for the topic."""
        return any(
            each.match(topic) and (text.startswith(INTERNAL_PREFIX) or not topic.startswith(INTERNAL_PREFIX))
            for text, each in self.patterns.items()
        )

    def is_only_matched(self, topic: str) -> bool:
        """Whether the topic was chosen by a pattern alone, so that its deletion is no error."""
        return topic not in self.names

    async def partitions(self, client: LogClient) -> list[Partition]:
        """Returns the partitions that exist. Raises RefusedError if a named topic or partition does not exist."""
        found = await client.partitions(list(self.names))
        chosen: list[Partition] = []
        for topic, numbers in self.names.items():
            there = unless_refused(found[topic])
            missing = set() if numbers is None else numbers - {each.number for each in there}
            if missing:
                raise RefusedError(f"there is no partition {Partition(topic, min(missing))}")
            chosen += [each for each in there if numbers is None or each.number in numbers]
        if self.patterns:
            for topic, there in (await client.all_partitions()).items():
                if topic not in self.names and self.matches(topic):
                    chosen += there
        return chosen

    def no_match(self) -> str:
        """Returns a sentence for the case that no topic was found."""
        return f"no topic matches {' or '.join(self.patterns)}"
