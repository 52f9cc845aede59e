"""Serves Kafka's protocol to clients, for SPUs and the Streaming Controller alike, and knows neither."""
