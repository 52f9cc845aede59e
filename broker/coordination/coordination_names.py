"""What coordinated things are called in errors for clients, and the topic that stores them."""

from msgspec import Struct

from tailrace.protocol.error_codes import ErrorCode, KafkaError


class CoordinationNames(Struct, frozen=True):
    topic: str
    """The internal topic whose partitions each have one coordinator."""
    one: str
    """What clients ask about: "group"."""
    many: str
    """What a coordinator has: "groups"."""

    def not_coordinator(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_COORDINATOR, f"this SPU is not the coordinator of the {self.one}")

    def loading(self) -> KafkaError:
        return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the {self.many} are being loaded")

    def not_loaded(self, reason: str) -> KafkaError:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the {self.many} could not be loaded: {reason}")

    def not_committed(self) -> KafkaError:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the followers of {self.topic} did not keep up")
