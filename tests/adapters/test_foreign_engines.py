"""What as_engine takes."""

import pytest

from upshot import Misuse
from upshot.adapters import as_engine


@pytest.mark.parametrize("given", ["agent", None, object])
def test_what_is_no_agent_is_refused(given):
    with pytest.raises(Misuse, match="as_engine takes"):
        as_engine(given)


def test_an_engine_names_the_package_that_is_missing():
    from upshot.adapters.agent_engine import load

    with pytest.raises(Misuse, match="pip install -U no-such-package"):
        load("no_such_module", "no-such-package")


@pytest.mark.parametrize(
    ("package", "kind"),
    [
        ("claude_agent_sdk", "ClaudeSDKClient"),
        ("crewai", "Crew"),
    ],
)
def test_an_agent_that_cannot_be_driven_says_why(package, kind):
    made = type(kind, (), {"__module__": f"{package}.agents", "__call__": lambda self, task: 0})()
    with pytest.raises(Misuse, match=f"of {package}, because .* return from_{package}"):
        as_engine(made)


def test_an_agent_of_strands_must_be_made_for_each_run():
    made = type("Agent", (), {"__module__": "strands.agent.agent"})()
    with pytest.raises(Misuse, match="a function without parameters"):
        as_engine(made)
    assert repr(as_engine(lambda: made)).startswith("StrandsEngine(")
