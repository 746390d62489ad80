"""Intervals of the lab beside those of scipy, on made data: how often each covers the true mean."""

import numpy
import pytest
from scipy import stats

from upshot.lab.statistics import interval_of, student_quantile

DRAWS = 2_000
# Theirs takes five times as long, and is only compared.
EACH = 4
MADE = numpy.random.default_rng(5)
SHAPES = {
    "normal": (lambda count: MADE.normal(1, 2, count), 1.0),
    "skewed": (lambda count: MADE.exponential(1, count), 1.0),
    "wins": (lambda count: MADE.choice([-1.0, 0.0, 1.0], count, p=[0.1, 0.6, 0.3]), 0.2),
    "paired": (lambda count: MADE.normal(0.5, 1, count) - MADE.normal(0, 1, count), 0.5),
}
# What any interval can reach with so few values of such a shape, after many runs of this test.
LEAST = {"normal": 0.935, "paired": 0.935, "wins": 0.88, "skewed": 0.83}


def covered(low, high, mean) -> bool:
    return low <= mean <= high


def rates(shape: str, count: int) -> dict[str, float]:
    """Return how often the interval of the lab, Student's and scipy's bootstrap cover the mean."""
    draw, mean = SHAPES[shape]
    hits = {"lab": 0, "t": 0, "bootstrap": 0}
    for number in range(DRAWS):
        values = draw(count)
        found = interval_of(values.tolist())
        hits["lab"] += covered(found.low, found.high, mean)
        if not values.std():
            continue  # the interval has no width, and neither of theirs is defined
        error = stats.sem(values)
        hits["t"] += covered(*stats.t.interval(0.95, count - 1, values.mean(), error), mean)
        if number % EACH == 0:
            made = stats.bootstrap(
                (values,), numpy.mean, n_resamples=499, method="percentile", vectorized=True
            )
            hits["bootstrap"] += EACH * covered(*made.confidence_interval, mean)
    return {name: number / DRAWS for name, number in hits.items()}


@pytest.mark.parametrize("count", [5, 10, 20, 50])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_interval_covers_the_mean_as_often_as_it_says(shape: str, count: int) -> None:
    found = rates(shape, count)
    print(f"{shape:7} {count:3} cases: " + ", ".join(f"{a} {b:.3f}" for a, b in found.items()))
    assert LEAST[shape] <= found["lab"] <= 0.985
    assert found["lab"] >= found["bootstrap"] - 0.03
    assert found["lab"] >= found["t"] - 0.02


@pytest.mark.parametrize("shape", SHAPES)
def test_the_ends_are_those_of_scipys_bootstrap_at_the_wider_level(shape: str) -> None:
    values = SHAPES[shape][0](25)
    found = interval_of(values.tolist())
    t = stats.t.ppf(0.975, 24)
    level = 1 - 2 * stats.norm.cdf(-numpy.sqrt(25 / 24) * t)
    made = stats.bootstrap(
        (values,), numpy.mean, n_resamples=50_000, method="percentile", confidence_level=level
    ).confidence_interval
    width = made.high - made.low
    assert found.low == pytest.approx(made.low, abs=0.1 * width)
    assert found.high == pytest.approx(made.high, abs=0.1 * width)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 19, 49, 199])
def test_the_quantiles_are_scipys(freedom: int) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-3)


def test_the_interval_of_a_few_cases_is_students() -> None:
    values = MADE.normal(0, 1, 7)
    found = interval_of(values.tolist())
    low, high = stats.t.interval(0.95, 6, values.mean(), stats.sem(values))
    assert (found.low, found.high) == (pytest.approx(low, rel=1e-3), pytest.approx(high, rel=1e-3))
