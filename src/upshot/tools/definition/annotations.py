"""From annotations to JSON Schema and typed values.

Constraints of annotated-types, which pydantic's own types use, are translated for msgspec.

Source:
    annotated-types 0.7 and 0.8 (README), read in 2026.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NoReturn,
    TypeAlias,
    TypeGuard,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from upshot.contract.base.structs import Json, JsonObject

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.fields import FieldInfo


# Builds the typed value from a JSON value that matches the schema.
Builder: TypeAlias = Callable[[Json], object]

_REF = "#/$defs/{name}"
_AS_THEY_ARE: tuple[object, ...] = (str, int, bool)
_ANYTHING: tuple[object, ...] = (Any, object)


class BuildError(ValueError):
    """A value matches the schema, but its type refuses it; the message says why."""


def read_annotations(
    annotations: Mapping[str, object],
) -> tuple[dict[str, JsonObject], JsonObject, dict[str, Builder]]:
    """Read *annotations*, by parameter name, into schemas and builders.

    Annotations that contain pydantic types are read by pydantic, which is then loaded already;
    all others by msgspec.

    Returns:
        A schema for each, the definitions that the schemas refer to, and a builder for each whose
        values are not used as they are.

    Raises:
        TypeError: An annotation has no JSON form.
    """
    plain = {name: kind for name, kind in annotations.items() if not _is_of_pydantic(kind)}
    rest = {name: kind for name, kind in annotations.items() if name not in plain}
    # One parameter at a time, because neither library reads the other's types.
    schemas, definitions = _read_plain(plain)
    builders = {name: _builder(kind) for name, kind in plain.items() if kind not in _AS_THEY_ARE}
    if rest:
        more, more_definitions, more_builders = _read_pydantic(rest)
        clash = [
            name
            for name in more_definitions
            if definitions.get(name, more_definitions[name]) != more_definitions[name]
        ]
        if clash:
            raise TypeError(f"two different types are called {clash[0]}")
        schemas, definitions = {**schemas, **more}, {**definitions, **more_definitions}
        builders = {**builders, **more_builders}
    return {name: schemas[name] for name in annotations}, definitions, builders


def copy_json(value: Json) -> Json:
    """Return a copy that shares no container with *value*."""
    if isinstance(value, dict):
        return {name: copy_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return value


def is_field_info(value: object) -> TypeGuard[FieldInfo]:
    """Whether *value* was made by pydantic's ``Field(...)``; never loads pydantic."""
    kind = _loaded_class("pydantic.fields", "FieldInfo")
    return kind is not None and isinstance(value, kind)


def with_field_info(annotation: object, default: object) -> object:
    """Add a ``Field(...)`` that was given as the default to *annotation*."""
    return Annotated[annotation, default] if is_field_info(default) else annotation


def _loaded_class(module: str, name: str) -> type | None:
    """Return the class *name* of *module*, or None as long as it is not loaded.

    Another thread may be importing the module; no annotation can use the class before that ends.
    """
    return getattr(sys.modules.get(module), name, None)


def _is_of_pydantic(annotation: object) -> bool:
    """Whether *annotation* has to be read by pydantic."""
    is_loaded = "pydantic" in sys.modules
    if not is_loaded and _annotated_types() is None:
        return False
    if is_loaded and _uses_pydantic(annotation):
        return True

    for kind in _classes_in(annotation, set()):
        for name, hint in _hints_of(kind).items():
            if is_loaded and (holds_constraints(hint) or _uses_pydantic(hint)):
                # msgspec reads the fields of a class itself, and understands neither of these.
                return not issubclass(kind, msgspec.Struct) or _refuse(kind, name)
            if holds_constraints(hint):
                _refuse(kind, name)
    return False


def _refuse(kind: type, name: str) -> NoReturn:
    raise TypeError(f"{kind.__name__}.{name} has an annotation that msgspec does not support")


def _uses_pydantic(annotation: object) -> bool:
    base = _loaded_class("pydantic.main", "BaseModel")
    if base is not None and isinstance(annotation, type) and issubclass(annotation, base):
        return True
    if is_field_info(annotation):
        return True
    # Types that pydantic itself defines, such as EmailStr, and annotated aliases of them.
    if getattr(annotation, "__module__", "").partition(".")[0] == "pydantic":
        return True
    if any(getattr(one, "func", None) for one in getattr(annotation, "__metadata__", ())):
        # A predicate: no schema can express it, but pydantic can check it.
        return True
    return any(map(_uses_pydantic, get_args(annotation)))


def _classes_in(annotation: object, seen: set[type]) -> Iterator[type]:
    """Yield every class with fields in *annotation*, those nested in fields included."""
    if isinstance(annotation, type) and annotation not in seen and _has_fields(annotation):
        seen.add(annotation)
        yield annotation
        for hint in _hints_of(annotation).values():
            yield from _classes_in(hint, seen)
    for one in get_args(annotation):
        yield from _classes_in(one, seen)


def _has_fields(kind: type) -> bool:
    marks = ("__dataclass_fields__", "__total__", "_fields", "__struct_fields__")
    return any(hasattr(kind, mark) for mark in marks)


def _hints_of(kind: type) -> dict[str, object]:
    try:
        return get_type_hints(kind, include_extras=True)
    except Exception:  # annotations are the caller's code; the next reader reports the fault
        return {}


def _read_plain(annotations: Mapping[str, object]) -> tuple[dict[str, JsonObject], JsonObject]:
    schemas, definitions = msgspec.json.schema_components(
        [_known_to_msgspec(with_constraints(kind)) for kind in annotations.values()],
        ref_template=_REF,
        schema_hook=_schema_of_other,
    )
    by_name = dict(zip(annotations, cast("Sequence[JsonObject]", schemas), strict=True))
    return by_name, cast("JsonObject", definitions)


def _known_to_msgspec(annotation: object) -> object:
    return Any if annotation is object else annotation


def _schema_of_other(kind: type) -> dict[str, Any]:
    if _is_path(kind):
        return {"type": "string"}
    raise TypeError(f"{kind.__name__} has no JSON form")


def _build_other(kind: type, value: object) -> object:
    if _is_path(kind):
        return kind(str(value))
    raise NotImplementedError


def _builder(annotation: object) -> Builder:
    if annotation in _ANYTHING:
        return copy_json

    kind = cast("type[object]", with_constraints(annotation))
    # Refuses what could never be built, such as two kinds of lists in one union.
    msgspec.json.Decoder(kind, dec_hook=_build_other)

    def build(value: Json) -> object:
        try:
            # Copied first, because msgspec shares values annotated with Any.
            return msgspec.convert(copy_json(value), kind, dec_hook=_build_other)
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            raise BuildError(str(error)) from error
        except Exception as error:  # a type's own code may raise anything: the value is refused
            raise BuildError(f"{type(error).__name__}: {error}") from error

    return build


def _read_pydantic(
    annotations: Mapping[str, object],
) -> tuple[dict[str, JsonObject], JsonObject, dict[str, Builder]]:
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

    try:
        adapters = {
            name: TypeAdapter(cast("type[object]", to_fields(kind)))
            for name, kind in annotations.items()
        }
        schemas, rest = TypeAdapter.json_schemas(
            [(name, "validation", adapter) for name, adapter in adapters.items()],
            ref_template="#/$defs/{model}",
        )
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise TypeError(str(error)) from error
    by_name = {name: cast("JsonObject", schemas[name, "validation"]) for name in annotations}
    definitions = cast("JsonObject", rest.get("$defs", {}))
    return by_name, definitions, {name: _pydantic_builder(a) for name, a in adapters.items()}


def _pydantic_builder(adapter: TypeAdapter[object]) -> Builder:
    from pydantic import ValidationError

    def build(value: Json) -> object:
        try:
            # As JSON, because pydantic's strict mode refuses date strings in Python objects.
            return adapter.validate_json(msgspec.json.encode(value), strict=True)
        except ValidationError as error:
            raise BuildError("; ".join(map(_fault_text, error.errors()))) from error
        except Exception as error:  # a type's own code may raise anything: the value is refused
            raise BuildError(f"{type(error).__name__}: {error}") from error

    return build


def _fault_text(fault: Any) -> str:
    place = "/".join(map(str, fault["loc"]))
    return f"/{place}: {fault['msg']}" if place else str(fault["msg"])


def _is_path(kind: type) -> bool:
    # An annotation with a path means that pathlib is loaded; other tools do not need it.
    pathlib = sys.modules.get("pathlib")
    return pathlib is not None and issubclass(kind, pathlib.PurePath)


_BOUNDS = {
    "Gt": "gt",
    "Ge": "ge",
    "Lt": "lt",
    "Le": "le",
    "MultipleOf": "multiple_of",
    "MinLen": "min_length",
    "MaxLen": "max_length",
}
# These inform readers and constrain nothing.
_WORDS = ("Unit", "DocInfo")
_OF_META = (*_BOUNDS.values(), "pattern", "title", "description")


def with_constraints(annotation: object) -> object:
    """Replace the constraints of annotated-types in *annotation* by ``msgspec.Meta``.

    Raises:
        TypeError: A constraint cannot be expressed to a model.
    """
    return annotation if _annotated_types() is None else _rewrite(annotation, _to_metas)


def to_fields(annotation: object) -> object:
    """Replace ``msgspec.Meta`` in *annotation* by ``Field``, which pydantic understands."""
    return _rewrite(annotation, _to_field_infos)


def holds_constraints(annotation: object) -> bool:
    """Whether *annotation* itself has constraints of annotated-types."""
    module = _annotated_types()
    if module is None:
        return False
    extras = getattr(annotation, "__metadata__", ())
    if any(_name_in(module, one) for one in extras):
        return True
    return any(map(holds_constraints, get_args(annotation)))


def _annotated_types() -> ModuleType | None:
    # An annotation that uses it means that it is loaded; other tools do not need it.
    return sys.modules.get("annotated_types")


def _rewrite(annotation: object, rewrite: Callable[[Iterable[object]], Iterable[object]]) -> object:
    origin = get_origin(annotation)
    if origin is None or origin is Literal:
        return annotation
    if hasattr(annotation, "__metadata__"):
        base, *extras = get_args(annotation)
        return _annotate(_rewrite(base, rewrite), list(rewrite(extras)))
    old = get_args(annotation)
    new = tuple(_rewrite(one, rewrite) for one in old)
    if all(one is other for one, other in zip(new, old, strict=True)):
        return annotation
    if origin in (Union, UnionType):
        return _union(new)
    return origin[new]


def _annotate(base: object, extras: list[object]) -> object:
    if not extras:
        return base
    metas = [one for one in extras if isinstance(one, msgspec.Meta) and _limits(one)]
    if metas and get_origin(base) in (Union, UnionType):
        # msgspec accepts limits only on the types that they limit, and null is never one of them.
        members = [one if one is NoneType else _annotate(one, [*metas]) for one in get_args(base)]
        return _annotate(_union(members), [one for one in extras if one not in metas])
    return Annotated[(cast("Any", base), *extras)]


def _union(members: Iterable[object]) -> object:
    return Union[tuple(members)]  # noqa: UP007  # its members are known only at run time


def _limits(meta: msgspec.Meta) -> bool:
    return any(getattr(meta, name, None) is not None for name in (*_BOUNDS.values(), "pattern"))


def _name_in(module: ModuleType, item: object) -> str:
    """Return the name of *item* in annotated-types, "" if it is not from there."""
    kind = type(item)
    return kind.__name__ if getattr(module, kind.__name__, None) is kind else ""


def _to_metas(extras: Iterable[object]) -> Iterator[object]:
    module = cast("ModuleType", _annotated_types())
    for item in extras:
        name = _name_in(module, item)
        if not name:
            yield item
        elif name in _BOUNDS:
            word = _BOUNDS[name]
            yield msgspec.Meta(**{word: getattr(item, word)})
        elif hasattr(type(item), "__is_annotated_types_grouped_metadata__"):
            yield from _to_metas(cast("Iterable[object]", item))
        elif name == "Timezone" and (zone := cast("Any", item).tz) in (None, ...):
            yield msgspec.Meta(tz=zone is ...)
        elif name not in _WORDS:
            raise TypeError(f"{name} has no form in JSON Schema")


def _to_field_infos(extras: Iterable[object]) -> Iterator[object]:
    from pydantic import Field

    for item in extras:
        if not isinstance(item, msgspec.Meta):
            yield item
            continue
        constraints = {name: getattr(item, name) for name in _OF_META}
        more = cast("dict[str, Any]", item.extra_json_schema)
        yield Field(
            **{name: one for name, one in constraints.items() if one is not None},
            json_schema_extra=more or None,
        )
