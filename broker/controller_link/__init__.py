"""The link to the Streaming Controller: registration, lease, specs, the mirror of the cluster, forwarded requests.

May import replicas, roles, upkeep and descriptions; knows no handler.
"""
