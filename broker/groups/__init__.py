"""Consumer groups: what a coordinator decides, without Trio, clock, disk or chance."""
