"""Groups of the KIP-848 protocol: members, reconciliation, records. Pure; may import classic groups to convert them."""
