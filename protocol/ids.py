"""The types of the ids and epochs by which everything is addressed."""

from typing import NewType
from uuid import UUID

SpuId = NewType("SpuId", int)
Epoch = NewType("Epoch", int)
"""A leader epoch: each election of a partition has a larger one."""
ProducerId = NewType("ProducerId", int)
TopicId = UUID
NO_TOPIC_ID = UUID(int=0)
NO_EPOCH = Epoch(-1)
FIRST_EPOCH = Epoch(0)
"""The epoch of the first leader of a partition."""
NO_REPLICA = -1
"""The replica id of a client's fetch: it is no replica."""
DEBUGGING_REPLICA = -2
"""The replica id of a client that looks into a log, beyond what consumers see."""
REPAIRING_REPLICA = -3
"""The replica id of an SPU that repairs its log: it sees everything that another SPU has stored, whether that one leads
or not. Kafka has no such id."""
