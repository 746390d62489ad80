"""Reads the objects of other agent libraries without importing any of them.

A library's reply, exception or message is read by attribute or key. So an object and its JSON form
are read in the same way, and a field that a version lacks is simply unknown:

- ``objects`` looks up a value in any object (``look``), converts it (``as_text``, ``as_count``,
  ...), and finds the headers of an object, or of an exception's cause.
- ``completion`` reads chat completions (from LiteLLM, AISuite and SDKs in OpenAI's shape): it turns
  the object back into its original JSON, and ``upshot.wire`` reads that by its own rules.
- ``framework_messages`` reads the messages of smolagents and pi, ``langchain_messages`` the
  messages of LangChain.
- ``returned`` reads what code returned or raised, in every form.

Each reader returns a ``ModelResponse`` with the parts in the order of the object. Nothing here
raises because of an object's content: a property that raises counts as missing, and a value that
JSON cannot express becomes its ``str``. Only ``upshot.wire.rate_limits`` reads rate limits.

Traps: LiteLLM copies a provider's limits to headers with OpenAI's names; and pi's input count
excludes cached tokens, except for Google's models, whose input includes them.
"""
