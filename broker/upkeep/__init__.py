"""Background work on local storage: flushing, retention, compaction, scrubbing, parked storage, the storage limit.

May import replicas and copies.
"""
