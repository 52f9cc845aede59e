"""The states of producers with their open transactions, and snapshots of these. May import segments and directory."""
