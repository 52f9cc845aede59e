"""The states of a transactional id, with their numbers in the log and Kafka's names."""

from enum import IntEnum


class State(IntEnum):
    """The state of a transactional id. The numbers are those in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """Kafka's name of the state, for example "PrepareCommit"."""
        return _KAFKA_NAMES[self]

    @property
    def is_ending(self) -> bool:
        """Whether the end is decided, and markers are being written."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)


_KAFKA_NAMES: dict[State, str] = {
    state: "".join(word.capitalize() for word in state.name.split("_")) for state in State
}
STATE_NAMES = frozenset(_KAFKA_NAMES.values())
"""The names of the states that a client may ask for in ListTransactions."""

STORED_STATES = frozenset(State) - {State.DEAD, State.PREPARE_EPOCH_FENCE}
"""The states that a record may have. The other two are Kafka's, and exist only in its memory."""
