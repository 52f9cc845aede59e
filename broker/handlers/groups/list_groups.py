"""ListGroups, versions 0–5: the groups that this SPU coordinates.

- v4 and later can ask for groups in certain states, v5 for groups of certain types. Case does not matter. A name that
  Kafka does not know matches nothing; Kafka refuses some of these names.
- While groups are being loaded, the response has the groups that are known, and COORDINATOR_LOAD_IN_PROGRESS.
"""

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tailrace.server.request_context import RequestContext

from .group_host import GroupHost


def handle(host: GroupHost, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    states = frozenset(state.lower() for state in request.states_filter)
    kinds = frozenset(kind.lower() for kind in request.types_filter)
    listed = [
        ListedGroup(group.group_id, group.protocol_type, group.state, group.kind)
        for group in host.groups.groups()
        if (not states or group.state.lower() in states) and (not kinds or group.kind in kinds)
    ]
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if host.groups.is_loading else ErrorCode.NONE
    return ListGroupsResponse(error_code=error, groups=listed)
