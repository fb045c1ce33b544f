"""Leases: unguessable, and signed, so that the site knows one that it gave out after it has ended.

A report may come again after its evaluation has ended, because the answer to the first one was lost. Then it has the
same answer. A report under a lease that this site never gave to its node is refused.
"""

import secrets

from django.core.signing import BadSignature, Signer

_NONCE_BYTES = 15
"""120 bits: with its signature a lease has the 64 characters that its column holds."""


def new_lease(evaluation_id: object, node: str) -> str:
    return _signer(evaluation_id, node).sign(secrets.token_urlsafe(_NONCE_BYTES))


def was_given(lease: str, evaluation_id: object, node: str) -> bool:
    """Whether this site has ever given `lease` on the evaluation to `node`."""
    try:
        _signer(evaluation_id, node).unsign(lease)
    except BadSignature:
        return False
    return True


def _signer(evaluation_id: object, node: str) -> Signer:
    return Signer(salt=f"lease of {node} on {evaluation_id}")
