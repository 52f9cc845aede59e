"""The rules for names of topics, and the names of the internal topics."""

import re
from collections.abc import Iterable
from uuid import UUID

from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .coordinators import GROUPS_TOPIC, TRANSACTIONS_TOPIC

CHARACTERS_MAX = 249
INTERNAL_TOPICS = frozenset({GROUPS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"})
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_QUOTED_CHARACTERS_MAX = 300


def check_topic_name(name: str) -> None:
    """Raises KafkaError, with a sentence, if no topic may have this name."""
    if not name:
        fault = "it is empty"
    elif name in (".", ".."):
        fault = "it means a directory"
    elif len(name) > CHARACTERS_MAX:
        fault = f"it has {len(name)} characters; there may be {CHARACTERS_MAX}"
    elif _LEGAL.fullmatch(name) is None:
        fault = "it may hold ASCII letters, digits, '.', '_' and '-' only"
    else:
        return
    raise KafkaError(
        ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name[:_QUOTED_CHARACTERS_MAX]!r} cannot name a topic: {fault}"
    )


def may_be_topic(name: str | UUID) -> bool:
    """Whether a topic can have this name or id, judged by its length.

    Servers remember only such names; otherwise a client could fill their memory with long names.
    """
    return not isinstance(name, str) or len(name) <= CHARACTERS_MAX


class TakenNames:
    """The names of all topics; no two may differ only in '.' and '_', which are the same in names of metrics."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_folded = {_folded(name): name for name in names}

    def add(self, name: str) -> None:
        """Adds the name of a topic."""
        self._by_folded[_folded(name)] = name

    def check_free(self, name: str) -> None:
        """Raises KafkaError if a new topic cannot have this name because of the others."""
        other = self._by_folded.get(_folded(name))
        if other == name:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a topic {name} already")
        if other is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{name} cannot be told from the topic {other} where '.' and '_' count as the same",
            )


def _folded(name: str) -> str:
    return name.replace(".", "_")
