"""The pool of worker processes of a replica: starts them, gives them chunks, and replaces those that end."""
