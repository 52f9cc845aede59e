"""Which topics members of a consumer group mean: those they name, and those whose names match their patterns.

Patterns are RE2's, as in Apache Kafka: what a client sends cannot make the coordinator compute for long. A pattern is
matched against each topic once, however many members and groups subscribe with it; later against new topics alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from msgspec import Struct

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import TopicSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError

PATTERNS_MAX = 1_000
"""Of which is remembered what they match; more are matched again."""
_PATTERN_MEMORY_BYTES_MAX = 1 << 20


class _Pattern(Struct):
    compiled: Any
    matches: frozenset[str]


class TopicPatterns:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._patterns: dict[str, _Pattern] = {}
        self._names: frozenset[str] = frozenset()
        """The topics that the patterns have been matched against."""
        self._version = -1

    def check(self, pattern: str) -> None:
        """Raises KafkaError."""
        if pattern not in self._patterns:
            _compile(pattern)

    def matches(self, pattern: str) -> frozenset[str]:
        """The names of the topics that there are now and that match as a whole."""
        self._follow_cluster()
        found = self._patterns.get(pattern)
        if found is None:
            if len(self._patterns) >= PATTERNS_MAX:
                self._patterns.clear()
            compiled = _compile(pattern)
            found = self._patterns[pattern] = _Pattern(compiled, _matching(compiled, self._names))
        return found.matches

    def _follow_cluster(self) -> None:
        if self._version == self._cluster.topics_version:
            return
        self._version = self._cluster.topics_version
        names = frozenset(self._cluster.topics)
        added, removed = names - self._names, self._names - names
        self._names = names
        for pattern in self._patterns.values():
            pattern.matches = (pattern.matches - removed) | _matching(pattern.compiled, added)


def fingerprint(topics: Sequence[TopicSpec]) -> int:
    """64 bits, signed, that are others when there are other topics or partitions; 0 when there are none.

    Stored with a group's epoch, they tell its next coordinator whether anything has changed since.
    """
    if not topics:
        return 0
    digest = blake2b(digest_size=8)
    for topic in sorted(topics, key=lambda topic: topic.name):
        digest.update(topic.name.encode() + b"\0" + topic.id.bytes + len(topic.partitions).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)


def existing(names: Iterable[str], topics: Mapping[str, TopicSpec]) -> list[TopicSpec]:
    return [topics[name] for name in names if name in topics]


def _matching(compiled: Any, names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name in names if compiled.fullmatch(name))


def _compile(pattern: str) -> Any:
    import re2  # few groups subscribe with patterns, and it takes a while to load

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
