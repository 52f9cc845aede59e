"""What the SC knows: events, actions, the local copy of the store, observations from connections. Pure."""
