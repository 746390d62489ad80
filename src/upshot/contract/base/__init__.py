"""What the values of the contract are made of: struct bases, enums, JSON, checks and reprs.

``structs`` has the bases of all values and the checks of their fields, ``enums`` the words,
``json_values`` turns what callers give into JSON, ``reprs`` shows values, ``paging`` reads large
texts in pieces. ``checks`` has the checks of arguments: ``Allowed`` says what one may be, a table
of them says it for a whole function, and ``check_arguments`` raises ``Misuse`` with one sentence:
what it must be, what was got, and where it helps what to give. Texts are never shown in it, for
they may be secrets. ``nearest`` and ``did_you_mean`` find what a mistyped name meant.
"""

__all__: list[str] = []
