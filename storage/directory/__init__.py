"""The data directory: where files lie, and facts about the whole store. Imports no other room."""
