"""The state of idempotent producers, and its snapshots. May import segments and directory."""
