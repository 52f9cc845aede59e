"""The transactions of one log: how far committed readers may read, and which transactions were aborted. May import
producers and segments."""
