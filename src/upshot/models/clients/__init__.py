"""Models asked through the client libraries LiteLLM and AISuite.

Use them to reach a provider that only such a library knows. Where upshot knows the provider, its
own ``HttpModel`` is the better choice: it needs no library and says more about errors.

``client_model`` is what both share, ``litellm_model`` and ``aisuite_model`` are the two libraries.
A call goes: the request is encoded as OpenAI Chat Completions -> the library is called, without
its own retries -> its reply, an object or a dict, is read by ``upshot.wire`` like one of the API.

What always holds: the library is imported at the first call, not by this package; an exception of
the library is a value in the response, by the status that it carries; retry stays in
``models.retry``, so that layers do not multiply.

Traps: a library reports usage and prices in its own way, which is corrected here. A library
is imported in a thread, since that may take seconds.
"""
