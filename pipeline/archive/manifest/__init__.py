"""What an archive holds: names of files, the manifest, and roll-ups of records. Pure."""
