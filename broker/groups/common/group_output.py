"""The effects that a coordinator of groups wants carried out, and the counters of what it does."""

from tailrace.broker.coordination.coordinator_output import CoordinatorOutput

from .coordinator_records import GroupRecord
from .group_counts import GroupCounts


class GroupOutput(CoordinatorOutput[GroupRecord], kw_only=True):
    counts: GroupCounts
    """The counters that all coordinators of this SPU share."""
