"""Facts about one replica's log: segments, epochs, compactions. May import indexes and directory."""
