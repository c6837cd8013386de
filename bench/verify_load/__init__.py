"""``python -m bench verify_load``: source and lake compared again and again while both change."""
