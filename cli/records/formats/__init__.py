"""Records as text: lines, JSON, YAML and format strings, as input and as output. Imports no other room of `records`."""
