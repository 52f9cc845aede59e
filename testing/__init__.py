"""Brokers for the tests of applications: `Broker` starts one, and the pytest plug-in has fixtures.

The broker is a child process, so that the tests of any framework can use it: with pytest or unittest, asyncio or Trio.
This package runs in the process of the tests. It may import the protocol and the rules of security, and no server
imports it.
"""

from .broker_error import BrokerError
from .broker_process import Broker
from .client_login import ClientLogin
from .fixture_broker import FixtureBroker

__all__ = ["Broker", "BrokerError", "ClientLogin", "FixtureBroker"]
