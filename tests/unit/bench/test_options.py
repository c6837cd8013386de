"""Every benchmark's options can be read, alone and when all of them run."""

from __future__ import annotations

import pytest

from bench.__main__ import NAMES, main


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in NAMES)])
def test_help_is_shown(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    assert "usage: python -m bench" in capsys.readouterr().out


def test_an_option_of_another_benchmark_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["encode", "--legs", "steady"])
    assert ended.value.code == 2
    assert "--legs" in capsys.readouterr().err
