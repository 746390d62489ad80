"""How a model is asked, and how often again."""

import re
from typing import Any

import pytest
from hypothesis import given

from tests.contract.strategies import structs
from upshot.contract import ModelSettings, RequestConfig, Retry
from upshot.errors import Misuse


@given(structs(ModelSettings), structs(ModelSettings))
def test_settings_are_merged_field_by_field(agent: ModelSettings, run: ModelSettings) -> None:
    merged = agent.merge(run)
    for name in ModelSettings.__struct_fields__:
        if name != "extra":
            told = getattr(run, name)
            assert getattr(merged, name) == (getattr(agent, name) if told is None else told)
    assert merged.extra == agent.extra | run.extra


@given(structs(ModelSettings))
def test_merging_nothing_changes_nothing(settings: ModelSettings) -> None:
    assert settings.merge(None) is settings
    assert settings.merge(ModelSettings()) == ModelSettings().merge(settings) == settings


def test_a_setting_of_zero_or_no_is_a_setting() -> None:
    over = ModelSettings(temperature=0.0, parallel_tool_calls=False, stop=())
    merged = ModelSettings(temperature=1.0, parallel_tool_calls=True, stop=("x",)).merge(over)
    assert (merged.temperature, merged.parallel_tool_calls, merged.stop) == (0.0, False, ())


@pytest.mark.parametrize("stop", ["END", ["END"], ("END",)])
def test_a_stop_text_may_stand_alone_or_in_a_list(stop: Any) -> None:
    assert ModelSettings(stop=stop).stop == ("END",)


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": "hot"},
        {"temperature": float("nan")},
        {"max_tokens": 1.5},
        {"reasoning": "muchly"},
        {"stop": [5]},
        {"extra": 5},
    ],
    ids=str,
)
def test_a_setting_of_another_type_is_named(fields: dict[str, Any]) -> None:
    with pytest.raises(Misuse, match=next(iter(fields))):
        ModelSettings(**fields)


def test_retry_has_patient_defaults() -> None:
    retry = Retry()
    assert (retry.max_tries, retry.max_wait_s, retry.most_s, retry.base_s) == (4, None, 60, 0.5)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_tries": 0},
        {"max_tries": -1},
        {"max_wait_s": -1},
        {"base_s": -0.1},
        {"max_wait_s": float("nan")},
        {"base_s": float("nan")},
        {"max_tries": "4"},
    ],
    ids=str,
)
def test_a_retry_that_cannot_be_is_misuse(limits: dict[str, Any]) -> None:
    with pytest.raises(Misuse):
        Retry(**limits)


@pytest.mark.parametrize(
    ("make", "field", "said"),
    [
        (Retry, "max_trys", "Retry has no field 'max_trys': did you mean 'max_tries'?"),
        (ModelSettings, "temprature", "did you mean 'temperature'?"),
        (RequestConfig, "modes", "RequestConfig has no field 'modes'"),
    ],
)
def test_a_misspelt_field_is_told_with_the_nearest(make: Any, field: str, said: str) -> None:
    with pytest.raises(Misuse, match=re.escape(said)):
        make(**{field: 1})


@pytest.mark.parametrize(
    ("tries", "floor_s", "drawn", "wait_s"),
    [
        (1, None, 0.0, 0.5),
        (3, None, 0.0, 2.0),
        (3, None, 0.5, 2.5),
        (3, 4.0, 0.0, 4.0),
        (3, 4.0, 0.5, 4.5),
        (3, -4.0, 0.0, 2.0),
        (9, None, 0.9, 10.0),
        (10**6, None, 0.9, 10.0),
        (1, 10.0, 0.9, 10.0),
        (1, 10.5, 0.0, None),
    ],
    ids=["first", "doubled", "jitter", "floor", "floor and jitter", "floor below 0", "most",
         "endless tries", "floor at most", "floor above most"],
)  # fmt: skip
def test_a_wait_doubles_keeps_the_floor_and_never_passes_the_longest(
    tries: int, floor_s: float | None, drawn: float, wait_s: float | None
) -> None:
    retry = Retry(base_s=0.5, max_wait_s=10)
    assert retry.wait_s(tries, floor_s=floor_s, draw=lambda: drawn) == wait_s
