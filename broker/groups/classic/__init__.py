"""Classic groups: members, rebalances and records.

Pure; may import assignment and common.
"""
