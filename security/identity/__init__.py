"""The names under which clients act."""
