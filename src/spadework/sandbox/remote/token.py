"""The secret that a client and a server of a TCP port share, and the proofs that both know it."""

from __future__ import annotations

import hmac
import os
from pathlib import Path
from typing import Literal

from spadework.sandbox.outcomes import InfrastructureFault

TOKEN, TOKEN_FILE = "SPADEWORK_SANDBOX_TOKEN", "SPADEWORK_SANDBOX_TOKEN_FILE"
MIN_TOKEN_CHARS = 16
"""Whoever listens to one connection can try tokens at leisure, so that short ones are none."""


def read_token() -> str:
    """The token of the environment: `TOKEN` itself, or the file that `TOKEN_FILE` names.

    Raises InfrastructureFault if there is none, or both are set.
    """
    token, path = os.environ.get(TOKEN, ""), os.environ.get(TOKEN_FILE, "")
    if bool(token) == bool(path):
        what = "both are set" if token else "neither is set"
        raise InfrastructureFault(
            f"a sandbox at a TCP port needs a token, in the environment variable {TOKEN} or in the file that "
            f"{TOKEN_FILE} names, and {what}; set one of them, to the same token on both machines"
        )
    if path:
        try:
            token = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise InfrastructureFault(f"the token in {path} ({TOKEN_FILE}) cannot be read: {reason}") from None
    require_token(token)
    return token


def require_token(token: str) -> None:
    """Raises InfrastructureFault for a token that can be guessed."""
    if len(token) < MIN_TOKEN_CHARS:
        raise InfrastructureFault(
            f"the token of the sandbox has {len(token)} characters; take at least {MIN_TOKEN_CHARS}, "
            "for example the output of `openssl rand -hex 16`"
        )


def proof(token: str, role: Literal["server", "client"], server_nonce: str, client_nonce: str) -> str:
    """What only one who knows ``token`` can say in answer to the two nonces."""
    message = f"spadework sandbox {role} {server_nonce} {client_nonce}"
    return hmac.new(
        token.encode("utf-8", "surrogatepass"), message.encode("utf-8", "surrogatepass"), "sha256"
    ).hexdigest()


def proves(token: str, role: Literal["server", "client"], server_nonce: str, client_nonce: str, said: str) -> bool:
    """Whether ``said`` is that proof, in a time that does not depend on how much of it is right."""
    expected = proof(token, role, server_nonce, client_nonce)
    return hmac.compare_digest(expected.encode(), said.encode("utf-8", "surrogatepass"))
