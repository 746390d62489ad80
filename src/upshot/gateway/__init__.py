"""A gateway between any MCP client and any number of MCP servers.

It passes everything through as it is, and brings ``tools/call`` through a Toolbox with a journal:
gates, conditions, approvals, effects that are made once, outcomes, redaction. The parts:

- ``config`` reads the YAML file, and makes a ``Tool`` of what a server lists and the file says.
- ``peer`` matches requests with answers, at both ends; ``channels`` carry the messages: the own
  input and output, those of a program, HTTP by the SDK.
- ``link`` is the way to one server, dialled again when it broke.
- ``calls`` makes the calls of one session, and waits for the answers of people.
- ``session`` serves one client: it sends each request to its server, and merges lists.
- ``front`` serves clients over standard input and output, or over streamable HTTP.

The life of a call: the session finds its tool; a call that nobody is asked about goes through the
session's Toolbox; one that needs an answer becomes a run of its own, which parks, so that it is in
the inbox of the journal, whoever else may ask for it. Its body sends the request to the server.

What always holds:

- Messages are not parsed beyond JSON-RPC, so what a later version of the protocol adds passes.
- A client that shakes hands gets a handshake of the server, one that sends envelopes gets a server
  that knows them: the gateway translates neither into the other.
- What the server said to a call that was made just now reaches the client as it is, with secrets
  masked. What an earlier call gave comes out of the journal.
- A session has connections of its own, since what servers ask back belongs to one client.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.gateway.config import Config as Config, read_config as read_config
    from upshot.gateway.front import check as check, serve_http as serve_http
    from upshot.gateway.front import serve_stdio as serve_stdio
