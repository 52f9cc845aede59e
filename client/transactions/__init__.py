"""The producer of one transactional id. It may import the other clients, but no part of triggers."""
