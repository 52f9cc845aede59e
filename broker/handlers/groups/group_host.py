"""What the handlers of group APIs need of the SPU, one interface per need.

`Spu` satisfies all of these without naming them; `handlers.SpuHost` is where mypy checks that.
"""

from typing import Protocol

from tailrace.broker.groups.hosting.group_coordination import GroupCoordination
from tailrace.broker.transactions.markers.verifications import TransactionPartitions, Verifications
from tailrace.cluster.configs.broker_configs import BrokerConfigs


class GroupHost(Protocol):
    """For APIs that ask the coordinator of a group."""

    @property
    def groups(self) -> GroupCoordination:
        """The groups that this SPU coordinates."""


class ConsumerGroupHost(GroupHost, Protocol):
    """For APIs that only groups of KIP-848 have."""

    @property
    def broker_configs(self) -> BrokerConfigs:
        """The settings, which say whether groups of KIP-848 are enabled."""


class ManyGroupsHost(GroupHost, Protocol):
    """For requests that may name thousands of groups, and so are handled in several turns."""

    def end_turn(self) -> None:
        """Lets other tasks see what this turn has appended."""


class TransactionalGroupHost(ManyGroupsHost, Protocol):
    """For offsets that are committed in transactions."""

    @property
    def transactions(self) -> TransactionPartitions:
        """Finds the coordinators of transactions."""

    @property
    def verifications(self) -> Verifications:
        """What waits for the coordinators of transactions."""
