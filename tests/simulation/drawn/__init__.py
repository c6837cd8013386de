"""Histories drawn from seeds, and those that were kept; old faults put back are found."""
