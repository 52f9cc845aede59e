"""Every transition between the resolutions of a partition, with its reason."""

from collections.abc import Mapping

from .objects import PartitionResolution

Transition = tuple[PartitionResolution, PartitionResolution]

_NONE, _OFFLINE = PartitionResolution.NONE, PartitionResolution.OFFLINE
_ELECTION, _CANDIDATE_FOUND = PartitionResolution.ELECTION, PartitionResolution.CANDIDATE_FOUND
_ONLINE = PartitionResolution.ONLINE

TRANSITIONS: Mapping[Transition, str] = {
    (_NONE, _OFFLINE): "it was made",
    (_OFFLINE, _CANDIDATE_FOUND): "one can lead",
    (_OFFLINE, _ELECTION): "several could lead",
    (_ELECTION, _CANDIDATE_FOUND): "the one with the smallest lag is known, or only one is left",
    (_ELECTION, _OFFLINE): "none is left",
    (_CANDIDATE_FOUND, _ONLINE): "it says that it leads",
    (_CANDIDATE_FOUND, _CANDIDATE_FOUND): "it is lost or silent, and one other can lead",
    (_CANDIDATE_FOUND, _ELECTION): "it is lost or silent, and several others could lead",
    (_CANDIDATE_FOUND, _OFFLINE): "it is lost or silent, and none is left",
    (
        _ONLINE,
        _CANDIDATE_FOUND,
    ): "the leader is lost, and one other can lead; or replicas move, or the preferred one returns",
    (_ONLINE, _ELECTION): "the leader is lost, and several others could lead",
    (_ONLINE, _OFFLINE): "the leader is lost, and no other can lead",
}
"""The reason for each transition. The one from CandidateFound to itself begins another epoch."""


def mermaid() -> str:
    """Returns the transitions as a state diagram in Mermaid's notation."""
    lines = ["stateDiagram-v2"]
    for (before, after), why in TRANSITIONS.items():
        lines.append(f"    {before.value or '[*]'} --> {after.value}: {why}")
    return "\n".join(lines)
