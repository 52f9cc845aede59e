"""Quix Streams with one of the bench's handlers: `quix_streams.py HOST:PORT TOPIC GROUP HANDLER`."""

import sys

from handlers import CALLS
from quixstreams import Application


def main() -> None:
    bootstrap, topic, group, handler = sys.argv[1:]
    application = Application(
        broker_address=bootstrap,
        consumer_group=group,
        auto_offset_reset="earliest",
        commit_interval=1.0,
        loglevel="WARNING",
        auto_create_topics=False,
    )
    call = CALLS[handler]
    frame = application.dataframe(application.topic(topic, value_deserializer="bytes", key_deserializer="bytes"))
    frame.update(lambda value: call())
    application.run()


if __name__ == "__main__":
    main()
