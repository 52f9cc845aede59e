"""The reports of the SPU: metrics, and descriptions of replicas, segments and group lag.

Reads the other rooms and changes nothing.
"""
