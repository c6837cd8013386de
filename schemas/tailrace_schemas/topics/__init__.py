"""Names of topics and tables, their escapes and templates."""
