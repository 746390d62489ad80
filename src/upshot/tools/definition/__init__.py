"""What a tool is: the function, its schema and its options.

``tool.Tool`` is the frozen value: a name, a body and options. ``@tool`` makes one of a function,
``Tool.from_schema`` of a JSON Schema. ``tool_options`` holds the option types (Rate, Circuit,
ProcessLimits), the table that checks options, and where another process finds a function.

``body`` reads a function's parameters and docstring: a schema, ``build`` (arguments to values) and
``start`` (run it). ``annotations`` turns each annotation into a JSON Schema and into a builder that
makes the typed value of JSON.

``cel`` compiles a condition in CEL and evaluates it on JSON.

``tool_error`` is what a body may raise (ToolError); what it is given, a ToolContext, is a value
of the contract.

What always holds: a tool is checked where it is defined, so that no run fails because of a
signature; and what only some annotations need (pydantic, pathlib, jsonschema-rs) is loaded only
for them. The schema is made at its first use and never changed, for all runs share it.
"""
