"""What ``@tool`` makes of a function, and what it refuses at once."""

import functools
import re
import subprocess
import sys
import threading
from typing import Any

import pytest

from upshot.contract import Effect
from upshot.errors import Misuse
from upshot.tools import Tool, ToolContext, tool


@tool
def plain(a: int) -> int:
    """Give it back."""
    return a


@tool(name="given", description="Told.", effect="read", idempotent=True, timeout_s=3)
async def dressed(a: int) -> int:
    """Not this."""
    return a


class Shop:
    def __init__(self, stock: int) -> None:
        self.stock = stock

    @tool(effect="read")
    def in_stock(self, item: str) -> int:
        """How many there are."""
        return self.stock

    @tool(effect="read")
    def asks(self, context: ToolContext, item: str) -> str:
        return context.call_id

    def __call__(self, item: str) -> int:
        return self.stock


def test_bare_decorator_takes_name_and_docstring_of_the_function():
    assert isinstance(plain, Tool)
    assert (plain.name, plain.description) == ("plain", "Give it back.")


def test_options_win_over_the_function():
    assert (dressed.name, dressed.description) == ("given", "Told.")
    assert dressed.effect is Effect.READ
    assert dressed.timeout_s == 3


def test_a_tool_can_still_be_called_like_its_function():
    assert plain(3) == 3


def test_undeclared_effect_counts_as_write():
    assert plain.effect is None
    assert plain.declared_effect is Effect.WRITE
    assert plain.may_write


def test_async_functions_run_on_the_loop_and_plain_ones_in_a_thread():
    assert dressed.body.is_async
    assert not plain.body.is_async


def test_async_is_seen_through_partials_and_callables():
    class Caller:
        async def __call__(self, a: int) -> int:
            return a

    async def two(a: int, b: int) -> int:
        return a + b

    assert tool(name="p")(functools.partial(two, b=1)).body.is_async
    assert tool(name="c")(Caller()).body.is_async


def test_a_method_is_bound_to_its_object():
    bound = Shop(7).in_stock
    assert list(bound.parameters["properties"]) == ["item"]
    assert bound("pen") == 7


def test_a_method_may_take_a_context_after_self():
    assert Shop(1).asks.body.wants_context
    assert list(Shop(1).asks.parameters["properties"]) == ["item"]


def test_a_callable_object_needs_a_name_and_has_a_schema():
    one = tool(name="shop")(Shop(2))
    assert list(one.parameters["properties"]) == ["item"]


def test_but_changes_fields_of_a_copy():
    other = plain.but(name="other", timeout_s=1.0)
    assert (other.name, other.timeout_s, plain.name) == ("other", 1.0, "plain")


def test_version_follows_what_the_model_is_told():
    assert plain.version == plain.but(timeout_s=1.0).version
    assert plain.version != plain.but(about="Other.").version


def generator():
    yield 1


async def async_generator():
    yield 1


def stars(*args: int) -> None: ...


def more_stars(**kwargs: int) -> None: ...


def by_position(a: int, /) -> None: ...


def late_context(a: int, context: ToolContext) -> None: ...


def no_schema(a: threading.Event) -> None: ...


def number(a: complex) -> None: ...


@pytest.mark.parametrize(
    "function",
    [
        lambda a: a,
        functools.partial(max, 1),
        generator,
        async_generator,
        stars,
        more_stars,
        by_position,
        late_context,
        no_schema,
        number,
        Shop,
        Shop(1),
        plain,
    ],
    ids=lambda function: getattr(function, "__name__", type(function).__name__),
)
def test_what_can_never_work_is_refused_at_definition(function: Any):
    with pytest.raises(Misuse):
        tool(function)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "has space"}, "'has space' cannot be the name of a tool"),
        ({"name": "x" * 65}, "cannot be the name of a tool"),
        ({"effect": "applied"}, "effect is 'applied'"),
        ({"timeout_s": -1}, "timeout_s must be seconds, at least 0, or None, got -1"),
        ({"timeout_s": float("nan")}, "timeout_s must be seconds, at least 0, or None, got nan"),
        ({"timeout_s": "5"}, "got str"),
        ({"retries": -1}, "retries must be a whole number"),
        ({"concurrency": 0}, "concurrency must be a whole number of at least 1, or None, got 0"),
        ({"concurrency": True}, "got True"),
        ({"resources": "orders"}, "resources is 'orders': give a list"),
        ({"resources": 5}, "resources is 5: give a list"),
        ({"trust": "none"}, 'trust must be "untrusted", "trusted" or "", got str'),
        ({"ask": "boss"}, 'ask must be "staff" or "user"'),
        ({"public": "yes"}, "public must be True, False, or a function of the arguments"),
        ({"public_name": None}, "public_name must be a text"),
        ({"isolation": "process"}, "function"),
        ({"efect": "read"}, "@tool has no option 'efect': did you mean 'effect'?"),
        ({"zzz": 1}, "@tool has no option 'zzz'"),
        ({"body": print}, "@tool has no option 'body'"),
        ({"about": "x"}, "@tool has no option 'about': did you mean 'description'?"),
        ({"name": 5}, "5 cannot be the name of a tool"),
        ({"name": ""}, "'' cannot be the name of a tool"),
        ({"description": 5}, "description must be a text or None"),
        ({"effect": ["read"]}, "effect is ['read']"),
        ({"idempotent": "no"}, "idempotent must be True or False"),
        ({"repeatable": 1}, "repeatable must be True or False, got 1"),
        ({"network": "no"}, "network must be True or False"),
        ({"repair": None}, "repair must be True or False, got None"),
        ({"approval": "always"}, "approval must be True, False, a plain function"),
        ({"retry_on_timeout": 0}, "retry_on_timeout must be True, False or None, got 0"),
        ({"verify": 5}, "verify must be a function, a Lookup or None"),
        ({"rate": 5}, "rate must be a Rate or None"),
        ({"circuit": 5}, "circuit must be a Circuit or None"),
        ({"limits": 5, "isolation": "process"}, "limits must be ProcessLimits or None"),
        ({"env": {"A": "b"}}, "env= is only for a tool with isolation='process'"),
        ({"env": {"A": 5}, "isolation": "process"}, "env is not a mapping of names to texts"),
        ({"error_key": 5}, "error_key must be a text or None, got 5"),
        ({"retries": 1.5}, "retries must be a whole number of at least 0, got 1.5"),
        ({"retries": None}, "retries must be a whole number"),
        ({"min_useful_s": None}, "min_useful_s must be seconds, at least 0, got None"),
        ({"resources": [5]}, "resources is [5]: give a list of names"),
        ({"resources": {"a": 1}}, "resources is {'a': 1}"),
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str):
    def function(a: int) -> int:
        return a

    with pytest.raises(Misuse, match=re.escape(said)):
        tool(**options)(function)


def test_a_name_may_have_dots():
    assert plain.but(name="math.add_2").name == "math.add_2"


def test_resources_that_can_be_read_once_are_kept():
    one = tool(name="one", resources=(name for name in ["a", "b"]))(dressed.body.function)
    assert one.resources_of({}) == one.resources_of({}) == {"a", "b"}


def test_a_name_in_the_place_of_the_function_is_refused():
    with pytest.raises(Misuse, match="takes a function, not 'refund'"):
        tool("refund")  # type: ignore[call-overload]


def test_a_raw_schema_makes_a_tool_that_takes_one_dict():
    schema: Any = {"type": "object", "properties": {"q": {"type": "string"}}}
    one = Tool.from_schema("find", "Finds.", schema, lambda arguments: arguments, effect="read")
    assert (one.name, one.description, one.parameters) == ("find", "Finds.", schema)
    assert one({"q": "x"}) == {"q": "x"}


INSIDE: Any = {"type": "object"}
DRAFT = "http://json-schema.org/draft-0{}/schema#"


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array"}, "must describe an object, not 'array'"),
        ({"type": ["array", "null"]}, "must describe an object"),
        ({"properties": {"a": {"type": "int"}}}, '"int" is not valid'),
        ({"type": "object", "required": "a"}, "is not valid"),
        ({"properties": 5}, "is not valid"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "does not exist"),
        ({"properties": {"a": {"pattern": "("}}}, "is not a"),
        ({"properties": {"a": {"minLength": -1}}}, "is not valid"),
        ({"properties": {"a": {"minimum": "1"}}}, "is not valid"),
        ({"properties": {"a": {"exclusiveMinimum": True, "minimum": 1}}}, "is not valid"),
        ({"$schema": "http://example.org/mine", "type": "object"}, "Unknown meta-schema"),
        ({"$ref": "http://127.0.0.1:9/x.json"}, "disabled"),
        ({"default": {print}}, "is not JSON"),
        ({"default": float("nan")}, "is not JSON at /default"),
        (None, "is None: give a JSON Schema"),
        (True, "is True: give a JSON Schema"),
        ([], "give a JSON Schema of an object"),
        (dict, "give a JSON Schema of an object"),
    ],
    ids=str,
)
def test_a_raw_schema_that_is_none_is_refused_at_definition(schema: Any, said: str):
    with pytest.raises(Misuse, match=re.escape(said)):
        Tool.from_schema("find", "", schema, lambda arguments: arguments)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": ["object"]},
        {"$schema": DRAFT.format(4), "properties": {"a": {"minimum": 1, "exclusiveMinimum": True}}},
        {"$schema": DRAFT.format(7), "properties": {"a": {"$ref": "#/definitions/b"}},
         "definitions": {"b": {"type": "integer"}}},
        {"properties": {"a": {"type": ["integer", "null"], "format": "unheard-of"}}},
        {"properties": {"a": {"enum": (1, 2)}}, "required": ("a",)},
    ],
    ids=str,
)  # fmt: skip
def test_a_raw_schema_of_any_common_kind_is_taken(schema: Any):
    one = Tool.from_schema("find", "", schema, lambda arguments: arguments)
    assert one.parameters.get("type", "object") == "object"
    assert one.check.read({"a": 2})


def test_a_raw_schema_is_copied():
    schema: Any = {"type": "object", "properties": {"a": {}}}
    one = Tool.from_schema("find", "", schema, lambda arguments: arguments)
    version = one.version
    schema["properties"]["b"] = {}
    assert one.parameters == {"type": "object", "properties": {"a": {}}}
    assert one.version == version == one.but(timeout_s=1).version


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (None, "call is None; give a function"),
        (5, "call is 5"),
        (lambda: 1, "it must accept one dict"),
        (lambda a, b: 1, "it must accept one dict"),
        (generator, "is a generator"),
        (async_generator, "is a generator"),
        (plain, "call is the tool 'plain'"),
    ],
    ids=[
        "None",
        "number",
        "no parameter",
        "two parameters",
        "generator",
        "async generator",
        "tool",
    ],
)
def test_a_callable_that_cannot_take_the_arguments_is_refused(call: Any, said: str):
    with pytest.raises(Misuse, match=re.escape(said)):
        Tool.from_schema("find", "", {"type": "object"}, call)


def test_a_plain_raw_schema_loads_no_heavy_library():
    code = (
        "import sys, upshot.tools\n"
        "schema = {'type': 'object', 'properties': {'a': {'type': 'string', 'minLength': 1}}}\n"
        "upshot.tools.Tool.from_schema('f', 'Do.', schema, print)\n"
        "print('jsonschema_rs' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"


def test_defining_a_tool_loads_no_heavy_library():
    code = (
        "import sys, upshot.tools\n"
        "@upshot.tools.tool\n"
        "def f(a: int, b: str = 'x') -> dict:\n"
        "    '''Do.\\n\\n    Args:\\n        a: An a.\\n    '''\n"
        "heavy = {'griffe', 'jsonschema_rs', 'pydantic', 'aiohttp', 'sqlite3'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


_HALF_IMPORTED = """
import sys, threading
from importlib.machinery import PathFinder, SourceFileLoader
import upshot

reached, go_on = threading.Event(), threading.Event()

class Held(SourceFileLoader):
    def exec_module(self, module):
        reached.set()
        go_on.wait()
        super().exec_module(module)

class Hold:
    def find_spec(self, name, path=None, target=None):
        if name != sys.argv[1]:
            return None
        spec = PathFinder.find_spec(name, path)
        spec.loader = Held(name, spec.origin)
        return spec

sys.meta_path.insert(0, Hold())
importing = threading.Thread(target=__import__, args=("pydantic.fields",))
importing.start()
reached.wait()
try:
    @upshot.tool
    def look(text: str, size: int = 1) -> str: ...
    print(sorted(look.parameters["properties"]))
finally:
    go_on.set()
    importing.join()
"""


@pytest.mark.slow("pydantic.fields")
@pytest.mark.parametrize("module", ["pydantic._migration", "pydantic.fields", "annotated_types"])
def test_a_tool_is_made_while_another_thread_imports_pydantic(module: str) -> None:
    made = subprocess.run(
        [sys.executable, "-c", _HALF_IMPORTED, module], capture_output=True, text=True, check=False
    )
    assert made.stdout == "['size', 'text']\n", made.stderr
