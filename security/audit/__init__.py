"""The audit log as lines: events, the chain of hashes that joins them, signed checkpoints, and verification."""
