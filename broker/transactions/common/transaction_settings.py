"""The settings of transactions, from the broker configs."""

from msgspec import Struct


class TransactionSettings(Struct, frozen=True):
    timeout_ms_max: int = 900_000
    """The longest timeout that a producer may ask for (transaction.max.timeout.ms)."""
    id_expiration_ms: int = 7 * 24 * 3600 * 1000
    """How long an idle transactional id is remembered (transactional.id.expiration.ms)."""
