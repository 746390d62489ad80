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
