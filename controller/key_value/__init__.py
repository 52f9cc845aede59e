"""The key-value store of the SC: compare-and-set, an ordered watch, leases. It does not know what the values mean and
imports no other room.
"""
