"""The template language: what it quotes, and how it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.sim.templates import Quotes, TemplateSyntax, Unquotable, compile_template

COUNT = {"total": 3, "by": [{"lang": "Go", "n": 2}, {"lang": "C|D", "n": 1}]}
LISTED = {"files": ["a.py", "b.py", "c.py"]}
QUOTES = Quotes(
    named={
        "count": COUNT,
        "list": LISTED,
        "odd-name": {"a b": None},
        "big": {"artifact_reference": "a1"},
    },
    ordered=[LISTED, COUNT, "plain words"],
    every={"count": [{"total": 1}, COUNT], "list": [LISTED]},
    request={"text": "How many?", "model": "m"},
)


def text(template: str) -> str:
    return compile_template(template).text(QUOTES)


def value(template: str) -> object:
    return compile_template(template).value(QUOTES)


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("no braces, } and { alone", "no braces, } and { alone"),
        ("total {{ results.count.total }}!", "total 3!"),
        ("{{results.count.total}}{{results.count.total}}", "33"),
        ("{{ results[0].files[-1] }}", "c.py"),
        ("{{ results[2] }}", "plain words"),
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


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{{ results.list.files | join }}", "a.py, b.py, c.py"),
        ("{{ results.list.files | first(2) | join(' + ') }}", "a.py + b.py"),
        ("{{ results.list.files | last | join }}", "c.py"),
        ("{{ results.list.files | last(0) | count }}", "0"),
        ("{{ request.text | first(3) }}", "How"),
        ("{{ results.list.files | bullets }}", "- a.py\n- b.py\n- c.py"),
        ("{{ results.count.by | each('n') | json }}", "[\n  2,\n  1\n]"),
        ("{{ results.count.by | count }} {{ results.count | count }}", "2 2"),
        (
            "{{ results.count.by | table }}",
            "| lang | n |\n| --- | --- |\n| Go | 2 |\n| C\\|D | 1 |",
        ),
        ("{{ results.count.by | table('n') }}", "| n |\n| --- |\n| 2 |\n| 1 |"),
        ("{{ results.list.files | first | table('file') }}", "| file |\n| --- |\n| a.py |"),
        (
            "{{ results.list | table('k', 'v') }}",
            '| k | v |\n| --- | --- |\n| files | ["a.py","b.py","c.py"] |',
        ),
        ("{{ results.list.files | first(0) | table }}", "(no rows)"),
    ],
)
def test_filters_lay_out_what_is_quoted(template, filled):
    assert text(template) == filled


@pytest.mark.parametrize(
    "template",
    [
        "{{ results.nowhere.deep | default('unknown') }}",
        "{{ results.nowhere | first(3) | default('unknown') }}",
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
        with pytest.raises(Unquotable):
            value("{{ results.nowhere }}")
    assert value(template) == whole


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{{ results.nope }}", "nothing at results.nope: results has no 'nope' (it has big, count"),
        ("{{ results.count.nope }}", "results.count has no 'nope' (it has by, total)"),
        ("{{ results[7].x }}", "nothing at results[7].x: results has 3 items"),
        ("{{ results.list.files[3] }}", "results.list.files has 3 items"),
        ("{{ results.list.files.name }}", "results.list.files is a list"),
        ("{{ results.count.total.x }}", "results.count.total is 3"),
        ("{{ results.count | join }}", "the filter join wants a list"),
        ("{{ results.count.total | count }}", "the filter count wants a list, an object or a text"),
        ("{{ results.list.files | each('n') }}", "the filter each wants objects with 'n'"),
        ("{{ results.count.total | table }}", "the filter table wants a list"),
    ],
)
def test_what_cannot_be_quoted_is_named(template, told):
    with pytest.raises(Unquotable) as raised:
        text(template)
    assert told in raised.value.args[0]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ }}", "one of results, all, request"),
        ("{{ results", "the closing }}"),
        ("{{ secrets.key }}", "one of results, all, request"),
        ("{{ 1 + 1 }}", "one of results, all, request"),
        ("{{ results.x + 1 }}", "the closing }}"),
        ("{{ results.x | shout }}", "a filter, one of default, json"),
        ("{{ results.x | first('a') }}", "first with at most one whole number"),
        ("{{ results.x | default }}", "default with one value"),
        ("{{ results. }}", "a name after the dot"),
        ("{{ results[x] }}", "a whole number or a quoted name"),
        ("{{ results[1.5] }}", "a whole number or a quoted name"),
        ("{{ results[1 }}", "]"),
        ("{{ results.x | default(y) }}", "a quoted text, a number"),
        ("{{ results.x | join(', ' }}", ")"),
    ],
)
def test_a_template_that_breaks_the_grammar_says_what_was_expected(template, expected):
    with pytest.raises(TemplateSyntax) as raised:
        compile_template(template)
    assert expected in str(raised.value)
    assert 0 <= raised.value.position <= len(template)


@given(st.text(alphabet=st.sampled_from("{}[]().,|'\"\\ \n-019resultsall_é"), max_size=60))
def test_any_text_compiles_or_is_refused_as_syntax(template):
    try:
        compiled = compile_template(template)
    except TemplateSyntax:
        return
    try:
        compiled.text(QUOTES)
    except Unquotable:
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
    quotes = Quotes(named, [], {}, {})
    name = data.draw(st.sampled_from(sorted(named)))
    path, wanted = f"results.{name}", named[name]
    while isinstance(wanted, (list, dict)) and wanted:
        if isinstance(wanted, list):
            place = data.draw(st.integers(-len(wanted), len(wanted) - 1))
            path, wanted = f"{path}[{place}]", wanted[place]
        else:
            key = data.draw(st.sampled_from(sorted(wanted)))
            path, wanted = f'{path}["{key}"]', wanted[key]
    assert compile_template("{{ " + path + " }}").value(quotes) == wanted
