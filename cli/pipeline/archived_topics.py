"""Names the topics of an archive in tables. A topic that was deleted and made again is there under several ids."""

from collections import Counter
from collections.abc import Iterable, Mapping

_ID_DIGITS = 8


def topic_labels(topics: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
    """Returns the text for each topic and its id. It has the first digits of the id if the name alone is ambiguous."""
    known = set(topics)
    ids = Counter(topic for topic, _ in known)
    return {
        (topic, topic_id): topic if ids[topic] == 1 else f"{topic} ({topic_id[:_ID_DIGITS]})"
        for topic, topic_id in known
    }
