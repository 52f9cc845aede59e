"""Markers, and what they mean for transactional batches that wait for their coordinator."""
