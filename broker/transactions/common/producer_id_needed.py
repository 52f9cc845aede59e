"""The error of a coordinator that needs a new producer id for a request."""

from tailrace.protocol.error_codes import ErrorCode, KafkaError


class ProducerIdNeededError(KafkaError):
    """The request needs a new producer id. Ask again with one.

    The code is that of a retriable error, for a client that gets it because no id can be had.
    """

    def __init__(self) -> None:
        super().__init__(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the request needs a new producer id")
