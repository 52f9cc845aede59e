"""The topics that members of consumer groups subscribe to, by name or by pattern.

Patterns have the syntax of RE2, as in Apache Kafka, which matches in linear time: no pattern of a client can keep the
coordinator busy. A pattern is matched against each topic once, for all members and groups that use it.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from msgspec import Struct

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import TopicSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError

PATTERNS_MAX = 1_000
"""How many patterns are remembered with their matches. After that all are forgotten and matched again."""
_PATTERN_MEMORY_BYTES_MAX = 1 << 20


class _Pattern(Struct):
    compiled: Any
    matches: frozenset[str]


class TopicPatterns:
    """The patterns of all groups of one coordinator, and the topics that match them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._patterns: dict[str, _Pattern] = {}
        self._names: frozenset[str] = frozenset()
        """The topics that the patterns have been matched against."""
        self._version = -1

    def check(self, pattern: str) -> None:
        """Raises KafkaError if the pattern is invalid."""
        if pattern not in self._patterns:
            _compile(pattern)

    def matches(self, pattern: str) -> frozenset[str]:
        """Returns the existing topics whose whole name matches the pattern."""
        self._match_new_topics()
        found = self._patterns.get(pattern)
        if found is None:
            if len(self._patterns) >= PATTERNS_MAX:
                self._patterns.clear()
            compiled = _compile(pattern)
            found = self._patterns[pattern] = _Pattern(compiled, _matching(compiled, self._names))
        return found.matches

    def _match_new_topics(self) -> None:
        if self._version == self._cluster.topics_version:
            return
        self._version = self._cluster.topics_version
        names = frozenset(self._cluster.topics)
        added, removed = names - self._names, self._names - names
        self._names = names
        for pattern in self._patterns.values():
            pattern.matches = (pattern.matches - removed) | _matching(pattern.compiled, added)


def fingerprint(topics: Sequence[TopicSpec]) -> int:
    """Returns a hash of the topics and their partition counts: a signed number of 64 bits, 0 without topics.

    The hash is stored with the epoch of a group. It tells the next coordinator whether the topics have changed since.
    """
    if not topics:
        return 0
    digest = blake2b(digest_size=8)
    for topic in sorted(topics, key=lambda topic: topic.name):
        digest.update(topic.name.encode() + b"\0" + topic.id.bytes + len(topic.partitions).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)


def existing(names: Iterable[str], topics: Mapping[str, TopicSpec]) -> list[TopicSpec]:
    """Returns the topics of these names that exist."""
    return [topics[name] for name in names if name in topics]


def _matching(compiled: Any, names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name in names if compiled.fullmatch(name))


def _compile(pattern: str) -> Any:
    import re2  # imported late, because it loads slowly and few groups need it

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _PATTERN_MEMORY_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        (reason,) = error.args
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason.decode(errors='replace')}.",
        ) from None
