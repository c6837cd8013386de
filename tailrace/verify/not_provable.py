"""Why a table cannot be compared."""


class NotProvable(Exception):
    """A table cannot be compared; says why, and what helps."""
