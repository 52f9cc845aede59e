"""Background work on local storage: flushing, retention, compaction, scrubbing, parked topics, storage limit.
May import replicas and copies.
"""
