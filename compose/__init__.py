"""The surroundings: the same stack as containers and as plain processes."""
