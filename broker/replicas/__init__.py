"""The replicas on this SPU: logs, settings and waiting requests. May import only the pure replication core."""
