"""Change data capture: one file per concept of its documentation."""
