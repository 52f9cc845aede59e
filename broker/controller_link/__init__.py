"""The link to the Streaming Controller: registration, lease, specs, mirror, forwarded requests.

May import replicas, roles, upkeep and descriptions; knows no handler.
"""
