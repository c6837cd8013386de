"""``python -m tailrace``."""

from tailrace.cli.root import main

main()
