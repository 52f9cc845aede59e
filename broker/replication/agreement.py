"""How far two logs are the same for sure, by where their epochs begin (KIP-101).

One leader produced all entries of an epoch, after what it had before: so two logs that both have entries of an epoch
are the same up to where the one ends that has fewer of them.
"""

from collections.abc import Sequence

from tailrace.protocol.ids import Epoch

from .entries import EpochStart


def agreed_end(own: Sequence[EpochStart], own_end: int, others: Sequence[EpochStart], others_end: int) -> int:
    """An end, exclusive; 0 if they have no epoch in common."""
    own_ends, others_ends = _ends(own, own_end), _ends(others, others_end)
    common = max(own_ends.keys() & others_ends.keys(), default=None)
    return 0 if common is None else min(own_ends[common], others_ends[common])


def _ends(epochs: Sequence[EpochStart], log_end: int) -> dict[Epoch, int]:
    ends = [beginning.start for beginning in epochs[1:]] + [log_end]
    return {beginning.epoch: end for beginning, end in zip(epochs, ends, strict=False)}
