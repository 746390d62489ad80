"""What as_engine takes."""

import pytest

from upshot import Misuse
from upshot.adapters import as_engine


@pytest.mark.parametrize("given", ["agent", None, object])
def test_what_is_no_agent_is_refused(given):
    with pytest.raises(Misuse, match="as_engine takes"):
        as_engine(given)
