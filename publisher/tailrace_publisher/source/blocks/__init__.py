"""Rows read in blocks through bound columns of the ODBC driver, encoded meanwhile."""
