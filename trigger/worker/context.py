"""What a handler gets besides its event: logger, data of the user, and the way to emit records."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import datetime
from types import SimpleNamespace

from tailrace.trigger.work import Output, Shard

from .emitted import Content, Headers, make_output
from .event import Event
from .event_logger import EventLogger, LogSettings
from .nuclio_platform import KEEPS_OPEN, Platform


class Response:
    """What Nuclio's handlers return. It has no reader but the worker, for which only `ensure_no_ack` counts."""

    def __init__(
        self,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str | None = None,
        status_code: int = 200,
    ) -> None:
        self.headers = dict(headers or {})
        self.body = body
        self.content_type = content_type
        self.status_code = status_code

    def ensure_no_ack(self) -> None:
        """Keeps the event open after the handler has returned, until it is acknowledged."""
        self.headers[KEEPS_OPEN] = "true"


class Context:
    """The surroundings of a handler. A worker has one context, which all calls of its handler share."""

    Response = Response

    def __init__(
        self,
        worker_id: int,
        trigger_name: str,
        trigger_kind: str,
        on_emit: Callable[[Event | None, Output], object],
        acknowledge_up_to: Callable[[Shard, int], None],
        log: LogSettings | None = None,
    ) -> None:
        """Makes a context. `on_emit` takes each output, with the event from which it follows if that is known.

        `acknowledge_up_to` acknowledges the open events of a shard up to an offset. `log` is None if this process has
        set up its logs already.
        """
        self._on_emit = on_emit
        self.platform = Platform(acknowledge_up_to)
        self.worker_id = worker_id
        """The number of the worker in its replica, from 0 on."""
        self.trigger_name = trigger_name
        self.trigger_kind = trigger_kind
        self.user_data = SimpleNamespace()
        """What `init_context` prepares, for example connections."""
        self.logger = EventLogger(self.current_event, log)
        self.handled: Event | None = None
        """The event that is being handled, or the first one of a batch. The worker sets it."""
        self.handled_in_task: ContextVar[Event | None] = ContextVar("handled_in_task", default=None)
        """The event that a task handles. Tasks that a handler has started keep it after the handler has returned."""

    def emit(
        self,
        topic: str,
        value: Content = None,
        *,
        key: Content = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: datetime | int | None = None,
        event: Event | None = None,
    ) -> None:
        """Emits a record to a topic. The records are sent when the handler has returned without an error; with explicit
        acknowledgement, when the event is acknowledged. The mark moves past the event after they are stored.

        Text is sent as UTF-8, and dicts and lists as JSON. `timestamp` is a datetime, or milliseconds since 1970.
        `event` is the event that the record follows from: threads that a handler has started must name it.
        """
        output = make_output(topic, key, value, headers, partition, timestamp)
        self._on_emit(event or self.current_event(), output)

    def current_event(self) -> Event | None:
        """Returns the event that is being handled here, or the first one of a batch; None outside a handler."""
        return self.handled_in_task.get() or self.handled
