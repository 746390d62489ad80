"""The plugin that pytest loads by itself: ``@pytest.mark.upshot_cases("bad.jsonl")``.

A marked test runs once for each case of a dataset of the lab. The plugin adds that marker and the
option ``--upshot-live``. It is loaded in every session of pytest, so it loads nothing of upshot
until a test has the marker.
"""

from __future__ import annotations

from typing import Any

import pytest

_MARKER = "upshot_cases"
_OPTION = "--upshot-live"
_ARGUMENT = "case"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that asks the models."""
    text = f"ask the models in tests of {_MARKER}, instead of playing the recorded replies"
    parser.getgroup("upshot").addoption(_OPTION, action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    line = f"{_MARKER}(path): run the test for each case of a dataset of upshot's lab"
    config.addinivalue_line("markers", line)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test for each case of the file that the marker names, from the test's folder on."""
    marker = metafunc.definition.get_closest_marker(_MARKER)
    if marker is None:
        return
    name = metafunc.function.__name__
    if len(marker.args) != 1 or marker.kwargs:
        raise _mistake(f'{name}: {_MARKER} takes the path of a dataset, such as "bad.jsonl"')
    if _ARGUMENT not in metafunc.fixturenames:
        raise _mistake(f"{name} is marked {_MARKER}, so it needs a parameter {_ARGUMENT!r}")
    metafunc.parametrize(_ARGUMENT, _parameters(metafunc, str(marker.args[0])))


def _parameters(metafunc: pytest.Metafunc, file: str) -> list[Any]:
    from upshot.errors import Misuse
    from upshot.testing.cases import read_cases

    live = bool(metafunc.config.getoption(_OPTION))
    try:
        cases = read_cases(metafunc.definition.path.parent / file, live=live)
    except Misuse as error:
        raise _mistake(str(error)) from error
    skip = pytest.mark.skip(reason=f"no recorded replies: {_OPTION} asks the model")
    marks = [() if live or case.replies else (skip,) for case in cases]
    return [
        pytest.param(case, id=case.id, marks=mark) for case, mark in zip(cases, marks, strict=True)
    ]


def _mistake(text: str) -> Exception:
    """Return an error that pytest shows as one sentence, without a traceback."""
    return pytest.Collector.CollectError(text)
