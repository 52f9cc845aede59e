"""What the SPU reports to people and tools: metrics, and descriptions of replicas, segments and group lag.

Reads the other rooms and changes nothing.
"""
