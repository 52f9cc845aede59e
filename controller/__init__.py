"""The Streaming Controller (SC): decides what there should be, and tells the SPUs."""
