"""Index files of segments: offsets and times to positions. May import the directory."""
