"""System views, system procedures and functions."""
