"""Counts the changes of one admin request against its client's quota, if the client has one."""

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.server.request_context import MutationQuota


class CountedMutations:
    """The changes of one request. A change counts before it is made, and not at all if it is refused."""

    def __init__(self, quota: MutationQuota | None) -> None:
        self._quota = quota

    @property
    def throttle_ms(self) -> int:
        """For how many milliseconds the client is throttled because of this request."""
        return 0 if self._quota is None else self._quota.throttle_ms

    def take(self, changes: int) -> None:
        """Counts changes of partitions that are about to be made. Raises KafkaError if the quota is used up."""
        refusal = None if self._quota is None else self._quota.take(changes)
        if refusal is not None:
            raise refusal

    def give_back(self, changes: int, error: KafkaError) -> None:
        """Takes back what was counted for changes that were refused. What only took too long still counts."""
        if self._quota is not None and error.code is not ErrorCode.REQUEST_TIMED_OUT:
            self._quota.give_back(changes)
