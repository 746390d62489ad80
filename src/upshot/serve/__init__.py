"""An App behind HTTP: a console that shows its runs, an inbox, and standard protocols.

``App.asgi(user=...)`` returns an ASGI application. The parts:

- ``permissions`` decides what a ``User``, the sender of a request, may do.
- ``site`` has ``Site``, which all doors share: owners of runs, permission to answer, submitting.
- ``guard`` checks every request: allowed hosts and origins, rates, headers; and the sign-in of
  the user who started the server.
- ``console`` has the routes of the pages and their JSON.
- ``openid`` signs users in at an OpenID provider.
- ``accounts`` has the JSON of the pages Sessions and Audit.
- ``public`` has ``public_events``: what a run shows its user; doors map these events.
- ``chats`` has what doors share whose clients send whole conversations.
- ``doors`` has a module for each protocol, which maps events to its own form and back.

Invariants:

- Every request has a user; without one it gets only the sign-in page.
- A run or conversation belongs to its first user; for other users it does not exist (404).
- Runs are driven by workers on the journal, never by a request: when a client disconnects, its run
  continues, and the client can find it again.
- ``by`` and ``tenant`` come from the user, never from a body.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.serve.openid import oidc as oidc
    from upshot.serve.public import public_events as public_events
    from upshot.contract.user import User as User
