"""Decides which revision each replica of a trigger should run, so that replicas are replaced one by one.

The next replica is replaced only when all replicas of the newest revision handle shards again, or wait for some. So a
function that cannot be loaded stops one replica and not all of them.
"""

from collections.abc import Mapping

from tailrace.cluster.stream_state.replica_report import ReplicaReport
from tailrace.controller.objects.objects import replica_name


def next_revisions(
    revisions: tuple[int, ...], replicas: int, newest: int, reports: Mapping[str, ReplicaReport]
) -> tuple[int, ...]:
    """Returns the revision that each of some replicas should run now.

    Additional replicas start with the newest revision. The others switch to it one at a time.
    """
    kept = list(revisions[:replicas])
    wanted = kept + [newest] * (replicas - len(kept))
    outdated = next((index for index, revision in enumerate(wanted) if revision != newest), None)
    if outdated is not None and awaited(tuple(wanted), newest, reports) is None:
        wanted[outdated] = newest
    return tuple(wanted)


def awaited(revisions: tuple[int, ...], newest: int, reports: Mapping[str, ReplicaReport]) -> str | None:
    """Returns the first replica that should run the newest revision, and has not reported yet that it does."""
    for index, revision in enumerate(revisions):
        name = replica_name(index)
        report = reports.get(name)
        is_up = report is not None and report.revision == newest and report.state.is_up
        if revision == newest and not is_up:
            return name
    return None
