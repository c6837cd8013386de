"""Leaves: types and their values, collations, errors, clocks; every room may use them."""
