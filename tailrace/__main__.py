"""``python -m tailrace``, and what the console script runs."""

import sys


def main() -> None:
    """Run the command line, or say which extra it needs."""
    try:
        from tailrace.cli.root import main as command
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tailrace"):
            raise
        sys.exit(f"tailrace needs {error.name}. Fix: pip install 'tailrace[publisher]'")
    command()


if __name__ == "__main__":
    main()
