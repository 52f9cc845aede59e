"""ListTransactions, versions 0–2: the transactional ids that this SPU coordinates.

- v1 can ask for transactions that have run for some time, v2 for ids that match a regular expression of RE2.
- The response names the states that Kafka does not know. They match nothing.
- While transactions are being loaded, the response has those that are known, and COORDINATOR_LOAD_IN_PROGRESS.
"""

from itertools import chain

import trio

from tailrace.broker.coordination.moment import Moment
from tailrace.broker.transactions.common.transaction_status import STATE_NAMES
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tailrace.server.request_context import RequestContext

from .transaction_host import ListTransactionsHost


def handle(
    host: ListTransactionsHost, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    moment = Moment(trio.current_time(), host.wall_clock.now_ms())
    unknown = [state for state in dict.fromkeys(request.state_filters) if state not in STATE_NAMES]
    is_loading = host.transactions.is_loading
    try:
        listed = list(chain.from_iterable(each.list(request, moment) for each in host.transactions.coordinators()))
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    return ListTransactionsResponse(
        error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NONE,
        unknown_state_filters=unknown,
        transaction_states=listed,
    )
