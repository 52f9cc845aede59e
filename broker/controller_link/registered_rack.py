"""Which rack this SPU stands in: the one in its registration, by which the Streaming Controller places replicas.

Whoever starts it may name the rack as well; where that is another one, it is said, and counts for nothing.
"""

from structlog.typing import FilteringBoundLogger

from tailrace.cluster.configs.broker_configs import BrokerConfigs


class RegisteredRack:
    def __init__(self, given: str | None, configs: BrokerConfigs, logger: FilteringBoundLogger) -> None:
        """`given` is what the SPU was started with."""
        self._given = given
        self._configs = configs
        self._logger = logger
        self._registered = given

    def on_registered(self, rack: str | None) -> None:
        """Said again and again; only what is new is logged."""
        self._configs.use_rack(rack)
        if rack != self._registered and self._given not in (None, rack):
            self._logger.warning("rack_ignored", given=self._given, registered=rack)
        self._registered = rack
