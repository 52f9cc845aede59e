"""The log of one replica, on the disk. Sub-packages form layers from directories up to the whole log."""
