"""A replica of a trigger: reads shards, has their records handled, commits marks, emits and reports."""
