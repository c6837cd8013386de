"""``python -m tests.simulation``: many seeds, on several cores; a failing one is cut down."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.checking import check, minimise, report
from tests.simulation.drawing import draw
from tests.simulation.kept import save
from tests.simulation.mutants import MUTANTS, SIGNS, put_back


def main() -> int:
    """Run what the arguments ask for; 1 when a seed failed."""
    arguments = _arguments()
    if arguments.seed is not None:
        return _one(arguments)
    began = time.monotonic()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    failed: list[int] = []
    done = 0
    for seed, text in _checked(seeds, arguments):
        done += 1
        if text is not None:
            failed.append(seed)
            _say(f"seed {seed}: {text}")
            if arguments.mutant is not None or len(failed) >= arguments.stop_after:
                break
        elif arguments.progress and done % 500 == 0:
            _say(f"{done} seeds, {time.monotonic() - began:.0f} s")
    _say(f"{done} seeds in {time.monotonic() - began:.0f} s, {len(failed)} failed")
    if failed and not arguments.no_minimise and arguments.mutant is None:
        arguments.seed = failed[0]
        _one(arguments)
    return int(bool(failed))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds; default 100")
    parser.add_argument("--first", type=int, default=0, help="the first seed; default 0")
    parser.add_argument("--seed", type=int, help="this seed alone, cut down when it fails")
    parser.add_argument("--jobs", type=int, default=1, help="processes; default 1")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="put an old fault back")
    parser.add_argument("--stop-after", type=int, default=10, help="failed seeds; default 10")
    parser.add_argument(
        "--no-minimise", action="store_true", help="leave failing seeds as they are"
    )
    parser.add_argument("--progress", action="store_true", help="tell how many seeds are done")
    parser.add_argument("--save", help="keep the failing history as a regression of that name")
    parser.add_argument("--verbose", action="store_true", help="print the publisher's log")
    return parser.parse_args()


def _one(arguments: argparse.Namespace) -> int:
    scenario = draw(arguments.seed)
    with put_back(arguments.mutant):
        failure = check(scenario, is_verbose=arguments.verbose and arguments.no_minimise)
        if failure is None:
            _say(f"seed {arguments.seed}: nothing wrong")
            return 0
        if not arguments.no_minimise:
            scenario, failure = minimise(scenario, failure)
            if arguments.verbose:
                check(scenario, is_verbose=True)
        if arguments.save is not None:
            save(scenario, arguments.save)
        _say(report(scenario, failure))
    return 1


def _checked(seeds: range, arguments: argparse.Namespace) -> Iterator[tuple[int, str | None]]:
    if arguments.jobs == 1:
        for seed in seeds:
            yield seed, check_seed(seed, arguments.mutant)
        return
    with ProcessPoolExecutor(arguments.jobs) as pool:
        mutants = [arguments.mutant] * len(seeds)
        yield from zip(seeds, pool.map(check_seed, seeds, mutants, chunksize=20), strict=True)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - the command tells its user


def check_seed(seed: int, mutant: str | None = None) -> str | None:
    """What is wrong with a seed; None when nothing is."""
    with put_back(mutant):
        failure = check(draw(seed))
    if failure is None:
        return None
    if mutant is not None and not any(sign in failure.text for sign in SIGNS[mutant]):
        return None
    return failure.text


if __name__ == "__main__":
    sys.exit(main())
