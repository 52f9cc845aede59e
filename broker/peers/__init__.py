"""Links between SPUs: dialling, accepting, handshake, frames, codec and queues. May import replicas and the pure
replication core."""
