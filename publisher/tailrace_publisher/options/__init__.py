"""The publisher's options, one module a section: unit, default, bounds, effect at both ends."""
