"""Rows read in blocks through bound columns of the ODBC driver, and encoded meanwhile."""
