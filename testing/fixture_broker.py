"""What the fixture `tailrace_broker` gives a test: the address of the worker's broker, and topics of its own."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from .broker_process import Broker

if TYPE_CHECKING:
    from .client_login import ClientLogin

TOPIC_NAME_CHARACTERS_MAX = 249
_REPLACED = re.compile(r"[^A-Za-z0-9._-]+")


class FixtureBroker:
    """A running broker for one test. Other tests use the same broker, but not the same topics."""

    def __init__(self, broker: Broker, test: str, number: int) -> None:
        """Takes the broker, the name of the test, and a number that no other test of this broker has."""
        self._broker = broker
        self._number = number
        self._prefix = topic_prefix(test, number)
        self._topics = 0
        self._log_begin = broker.log_size

    @property
    def bootstrap(self) -> str:
        """The address for clients: `HOST:PORT`."""
        return self._broker.bootstrap

    @cached_property
    def topic(self) -> str:
        """The name of a new, empty topic with one partition, which only this test uses."""
        return self.create_topic()

    def create_topic(self, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Creates another new topic, which only this test uses, and returns its name."""
        self._topics += 1
        name = self._prefix if self._topics == 1 else f"{self._prefix}-{self._topics}"
        return self._broker.create_topic(name, partitions=partitions, configs=configs)

    @property
    def admin(self) -> "ClientLogin":
        """The user of a secure broker that may do everything, with ready settings for clients."""
        return self._broker.admin

    def create_user(self, name: str) -> "ClientLogin":
        """Creates a user of a secure broker, which only this test uses; a number follows its name."""
        return self._broker.create_user(f"{name}-{self._number}")

    def allow(
        self,
        user: "ClientLogin | str",
        *operations: str,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
    ) -> None:
        """Lets a user do operations such as `read`, `write` and `create` with topics, groups and transactional ids.

        `orders-*` stands for all names that begin with `orders-`, and `*` for all names.
        """
        self._broker.allow(user, *operations, topic=topic, group=group, transactional_id=transactional_id)

    def log(self) -> str:
        """Returns what the broker has logged since the test began."""
        return self._broker.log(self._log_begin)


def topic_prefix(test: str, number: int) -> str:
    """Returns a name for the topics of a test, with the characters and the length that Kafka allows."""
    ending = f"-{number}"
    room = TOPIC_NAME_CHARACTERS_MAX - len(ending) - len("-9999")
    return _REPLACED.sub("-", test).strip("-")[:room] + ending
