"""Consumer groups. The pure core decides; `hosting/` runs it on an SPU."""
