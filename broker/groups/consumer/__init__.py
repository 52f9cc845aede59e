"""Consumer groups (KIP-848): members, reconciliation and records.

Pure; may import classic groups in order to convert them.
"""
