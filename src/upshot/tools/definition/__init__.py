"""Defining a tool: its function, its schema and its options.

``tool.Tool`` is the frozen value: a name, a body and options. ``@tool`` makes one from a function,
``Tool.from_schema`` from a JSON Schema. ``tool_options`` has the option types (Rate, Circuit,
ProcessLimits), the table that checks options, and the address at which another process can import
a function.

``body`` reads a function's parameters and docstring into a schema. ``build`` turns JSON arguments
into typed values and ``start`` calls the function. ``annotations`` turns each annotation into a
JSON Schema and a builder, which makes the typed value from JSON.

``cel`` compiles conditions written in CEL and evaluates them on JSON.

``tool_error`` has ToolError, which a body may raise. The ToolContext that a body receives is part
of the contract.

Invariants: a tool is checked where it is defined, so no run fails because of a bad signature.
Modules that only some annotations need (pydantic, pathlib, jsonschema-rs) are loaded only for
those. The schema is built at first use and never changes, because all runs share it.
"""
