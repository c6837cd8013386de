"""The shape of lake tables and how it follows the source's schema. Pure."""
