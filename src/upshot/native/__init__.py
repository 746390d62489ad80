"""Reads the objects of other agent libraries without importing any of them.

A library's reply, exception or message is read by attribute or key. So an object and its JSON form
are read in the same way, and a field that a version lacks is simply unknown:

- ``objects`` looks up a value in any object (``look``), converts it (``as_text``, ``as_count``,
  ...), and finds the headers that an object, or the cause of an exception, carries.
- ``completion`` reads chat completions (of LiteLLM, AISuite and SDKs in OpenAI's shape): it turns
  the object back into the JSON that it came from, and ``upshot.wire`` reads that by its own rules.
- ``framework_messages`` reads the messages of smolagents and pi, ``langchain_messages`` those of
  LangChain.
- ``returned`` reads what code returned or raised, in every form.

Each reader returns a ``ModelResponse`` with the parts in the order of the object. Nothing here
raises for what an object contains: a property that raises counts as missing, and a value without
JSON form becomes its ``str``. Rate limits are read by ``upshot.wire.rate_limits`` alone.

Traps: LiteLLM copies a provider's limits to headers with OpenAI's names; and pi's input count
leaves out cached tokens, except for Google's models, whose input includes them.
"""
