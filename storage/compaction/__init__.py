"""Log compaction: which records stay, when it runs, and one run of it. May import segments and manifest."""
