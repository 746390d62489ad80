"""Templates of replies: what they quote, and how they refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.errors import Misuse
from upshot.sim.exchange import Quotes
from upshot.sim.provider import Missing, fill, parse_template

COUNT = {"total": 3, "by": [{"lang": "Go", "n": 2}, {"lang": "C|D", "n": 1}]}
LISTED = {"files": ["a.py", "b.py", "c.py"]}
QUOTES = Quotes(
    [
        ("count", {"total": 1}),
        ("list", LISTED),
        ("count", COUNT),
        ("odd-name", {"a b": None}),
        ("note", "plain words"),
        ("big", {"artifact_reference": "a1"}),
    ],
    "How many?",
    "m",
)


def text(template: str) -> object:
    return fill(template, QUOTES)


def value(template: str) -> object:
    return fill(template, QUOTES, as_text=False)


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("no braces, } and { alone", "no braces, } and { alone"),
        ("total {{ results.count.total }}!", "total 3!"),
        ("{{results.count.total}}{{results.count.total}}", "33"),
        ("{{ results[1].files[-1] }}", "c.py"),
        ("{{ results[-2] }}", "plain words"),
        ('{{ results["odd-name"]["a b"] }}', "null"),
        ("{{ results.odd-name['a b'] }}", "null"),
        ("{{ all.count[0].total }} then {{ all.count[1].total }}", "1 then 3"),
        ("{{ request.text }} {{ request.model }}", "How many? m"),
        ("{{ results.list.files }}", '["a.py","b.py","c.py"]'),
        ('{{ "{{" }} stays', "{{ stays"),
        ("{{ 'it\\'s\\n' }}", "it's\n"),
        ("{{ results.big.artifact_reference }}", "a1"),
    ],
)
def test_a_template_quotes_what_the_request_holds(template, filled):
    assert text(template) == filled


def test_a_list_of_objects_in_a_text_is_a_table():
    filled = text("By language:\n{{ results.count.by }}")
    assert filled == "By language:\n| lang | n |\n| --- | --- |\n| Go | 2 |\n| C\\|D | 1 |"


@pytest.mark.parametrize(
    "template",
    [
        "{{ results.nowhere.deep | default('unknown') }}",
        '{{results["no"].where|default("unknown")}}',
        "{{ results[9] | default('unknown') }}",
        "{{ results['odd-name']['a b'] | default('unknown') }}",
    ],
)
def test_default_stands_in_for_what_is_missing_or_null(template):
    assert text(template) == "unknown"


def test_a_value_that_is_there_keeps_its_default_out():
    assert text("{{ results.count.total | default(9) }}") == "3"


@pytest.mark.parametrize(
    ("template", "whole"),
    [
        ("{{ results.count.by }}", COUNT["by"]),
        ("{{ results.count.total }}", 3),
        ("{{ results.nowhere | default(null) }}", None),
        ("{{ results.nowhere | default(2.5) }}", 2.5),
        (" {{ results.count.total }}", " 3"),
    ],
)
def test_a_template_that_is_one_expression_gives_the_json_value(template, whole):
    if whole is None:
        with pytest.raises(Missing):
            value("{{ results.nowhere }}")
    assert value(template) == whole


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{{ results.nope }}", "nothing at results.nope: results has no 'nope' (it has big, count"),
        ("{{ results.count.nope }}", "results.count has no 'nope' (it has by, total)"),
        ("{{ results[7].x }}", "nothing at results[7].x: results has 6 items"),
        ("{{ results.list.files[3] }}", "results.list.files has 3 items"),
        ("{{ results.list.files.name }}", "results.list.files is a list"),
        ("{{ results.count.total.x }}", "results.count.total is 3"),
    ],
)
def test_what_cannot_be_quoted_is_named(template, told):
    with pytest.raises(Missing) as raised:
        text(template)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    "expression",
    [
        "{{ }}",
        "{{ results",
        "{{ secrets.key }}",
        "{{ 1 + 1 }}",
        "{{ results.x + 1 }}",
        "{{ results.x | shout }}",
        "{{ results.x | default }}",
        "{{ results. }}",
        "{{ results[x] }}",
        "{{ results[1.5] }}",
        "{{ results[1 }}",
        "{{ results.x | default(y) }}",
    ],
)
def test_what_breaks_the_grammar_is_shown_with_its_place_and_what_was_expected(expression):
    with pytest.raises(Misuse) as raised:
        parse_template(f"Total: {expression}")
    assert str(raised.value).startswith("at character 7: expected a path such as results.NAME")
    assert expression in str(raised.value)


@given(st.text(alphabet=st.sampled_from("{}[]().,|'\"\\ \n-019resultsall_é"), max_size=60))
def test_any_text_compiles_or_is_refused_as_syntax(template):
    try:
        fill(template, QUOTES)
    except (Misuse, Missing):
        return


@given(st.text().filter(lambda text: "{{" not in text))
def test_text_without_braces_is_filled_as_itself(template):
    assert text(template) == template


names = st.from_regex(r"[a-z_][a-z0-9_-]{0,8}", fullmatch=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(names, json_values, min_size=1, max_size=3), st.data())
def test_every_path_to_a_value_quotes_that_value(named, data):
    quotes = Quotes(list(named.items()), "", "")
    name = data.draw(st.sampled_from(sorted(named)))
    path, wanted = f"results.{name}", named[name]
    while isinstance(wanted, (list, dict)) and wanted:
        if isinstance(wanted, list):
            place = data.draw(st.integers(-len(wanted), len(wanted) - 1))
            path, wanted = f"{path}[{place}]", wanted[place]
        else:
            key = data.draw(st.sampled_from(sorted(wanted)))
            path, wanted = f'{path}["{key}"]', wanted[key]
    assert fill("{{ " + path + " }}", quotes, as_text=False) == wanted
