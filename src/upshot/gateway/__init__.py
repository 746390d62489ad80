"""A gateway between any MCP client and any number of MCP servers.

It passes everything through unchanged, except for ``tools/call``, which goes through a Toolbox with
a journal: gates, conditions, approvals, effects that are made once, outcomes, redaction. The parts:

- ``config`` reads the YAML file, and makes a ``Tool`` of what a server lists and the file says.
- ``peer`` matches requests with answers, at both ends. ``channels`` carry the messages: over
  standard input and output, over the pipes of a program, or over HTTP through the SDK.
- ``link`` is the connection to one server, which is dialled again after it breaks.
- ``calls`` makes the calls of one session, and waits for people to answer.
- ``session`` serves one client: it sends each request to its server, and merges lists.
- ``front`` serves clients over standard input and output, or over streamable HTTP.

The life of a call: the session finds its tool. A call that needs no approval goes through the
session's Toolbox. A call that needs approval becomes a separate run, which parks, so that the
question is in the journal's inbox. In both cases the tool's body sends the request to the server.

What always holds:

- Messages are not parsed beyond JSON-RPC, so that additions of later protocol versions pass.
- The gateway does not translate between protocol versions: a client that shakes hands needs a
  server that does, and a client that sends envelopes needs a server that knows them.
- The server's response to a call reaches the client unchanged, with secrets masked. The result of
  an earlier call is read from the journal.
- Sessions do not share connections, because a server's own requests belong to one client.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.gateway.config import Config as Config, read_config as read_config
    from upshot.gateway.front import check as check, serve_http as serve_http
    from upshot.gateway.front import serve_stdio as serve_stdio
