"""Groups of the classic protocol: members, rebalances, records. Pure; may import assignment and common."""
