"""Plans and statements run: batches, procedures, functions, cursors, transactions."""
