"""The ``tailrace`` command: its options, its commands, and what ``publish`` and ``sink`` need."""


def main() -> None:
    """Run the command line, as console scripts that were installed before this release do."""
    from tailrace.cli.root import main as run

    run()
