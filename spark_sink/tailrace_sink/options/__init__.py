"""The sink's options: unit, default, bounds, and what happens at both ends."""
