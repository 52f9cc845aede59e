"""The names everything is addressed by."""

from typing import NewType
from uuid import UUID

SpuId = NewType("SpuId", int)
Epoch = NewType("Epoch", int)
"""A leader epoch: assigned by an election, never falls."""
ProducerId = NewType("ProducerId", int)
TopicId = UUID
NO_TOPIC_ID = UUID(int=0)
NO_EPOCH = Epoch(-1)
FIRST_EPOCH = Epoch(0)
"""That of the first leader of a partition."""
NO_REPLICA = -1
"""Stands in the place of an SPU's id where a client fetches."""
DEBUGGING_REPLICA = -2
"""What a client calls itself in the place of an SPU's id that looks into a log, beyond what consumers see."""
MENDING_REPLICA = -3
"""The same of an SPU that mends its log: it sees all that another one has, whoever leads. Ours; Kafka has no such."""
