"""Connections through the Microsoft ODBC driver: settings, errors, retries, cancelling."""
