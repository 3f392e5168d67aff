"""Authentication of this process at a remote Ray cluster."""

from __future__ import annotations

from overtrick import startup


def forget_local_token() -> None:
    """Unset the token that was generated for a local Ray, which no cluster knows.

    Call it before Ray is imported: Ray then reads whether it has to send a token.
    """
    startup.drop_generated_token()
