"""The building blocks of the contract's values: struct bases, enums, JSON, checks and reprs.

- ``structs``: the bases of all values (``Value``, ``Tagged``, ``Root``, ``RunEvent``) and the
  checks of their fields.
- ``enums``: the closed and the open enums, and the types of their fields.
- ``json_values``: converts the caller's values to JSON, and reports what JSON could not express.
- ``checks``: the checks of arguments, and the messages that ``Misuse`` carries.
- ``reprs``: the one-line forms of values. ``paging``: reads a large text page by page.

A field's value is corrected or refused once, in ``__post_init__``: lists become tuples
(``freeze``), moments UTC (``settle_moments``), free values JSON (``settle_json`` refuses what JSON
cannot express, ``force_json`` replaces it), lone surrogates U+FFFD (``clean_fields``), and
``check_types`` compares the rest with the annotations. Everywhere else values are trusted.

Invariants:

- Values are frozen. Only ``__post_init__`` sets a field, with ``set_field``.
- A field that equals its default is left out of the JSON. ``written`` marks a default that is
  written anyway, because readers take an absent field to mean unknown.
- A message of ``check_arguments`` says what the argument must be, what was given and, if known,
  what to give. It never shows a text, which may be a secret.
- An open enum never grows: an unknown word is a new object each time, equal to its string.

Traps: msgspec checks types only when it decodes, so a hand-built value needs ``check_types``.
``KeywordMeta`` and ``ArgumentsMeta`` replace Python's TypeError for a misspelt keyword; decoding
bypasses them. A ``Local`` equals None and every other ``Local``, so never compare two of them.
"""
