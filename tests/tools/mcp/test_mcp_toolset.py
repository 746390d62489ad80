"""Names of a server's tools."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.tools.mcp.mcp_toolset import to_tool_name


def test_a_name_that_every_provider_takes_stays():
    assert to_tool_name("files", "read-file_2") == "files_read-file_2"


@pytest.mark.parametrize(("length", "stays"), [(62, True), (63, False)])
def test_a_name_has_at_most_64_characters(length, stays):
    name = to_tool_name("s", "n" * length)
    assert (name == "s_" + "n" * length) is stays
    assert len(name) == 64


@pytest.mark.parametrize("other", ["a_b", "a b", "a/b"])
def test_two_names_do_not_become_one(other):
    assert to_tool_name("s", "a.b") != to_tool_name("s", other)


@given(st.text(), st.text())
def test_whatever_a_server_calls_a_tool_becomes_a_name(namespace, name):
    assert re.fullmatch("[A-Za-z0-9_-]{1,64}", to_tool_name(namespace, name))
