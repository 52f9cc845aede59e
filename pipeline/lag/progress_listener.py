"""The listener that Spark tells about progress. It only keeps what it hears, and raises nothing.

With the Spark Connect of 4.0 and later, listeners run in this process. Earlier releases pickle the listener and run it
in the server, where it could tell this process nothing: such a session refuses the listener, and looks at
`lastProgress` are enough, except for queries that end within a second.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .spark_queries import Heard

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryListener


def progress_listener(heard: Heard, on_change: Callable[[], None]) -> "StreamingQueryListener":
    """Makes a listener that passes on what it is told.

    `on_change` is called when a query has started or ended, and must return at once: the start of a query waits.
    """
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class ProgressListener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
            with suppress(Exception):
                on_change()

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            with suppress(Exception):
                heard.on_progress(str(event.progress.runId), event.progress.json)

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            """Does nothing: an idle query is where its last batch was."""

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            with suppress(Exception):
                heard.on_ended(str(event.id), str(event.runId))
                on_change()

        def __reduce__(self) -> Any:
            raise TypeError("this listener works only in the process that has attached it")

    return ProgressListener()
