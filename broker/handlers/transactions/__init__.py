"""Handlers of the APIs of transactions, which ask the coordinator of a transactional id and wait for its answer."""
