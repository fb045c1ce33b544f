"""Taking out of a trajectory what looks like a credential, before it is stored."""

import re

REDACTED = "[redacted]"
MAX_TRAJECTORY_BYTES = 64 * 1024

# Nothing here may look ahead without a bound from every character: a trajectory that is made for it would take a web
# process ten seconds.
_CREDENTIALS = re.compile(
    r"""
    -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)  # cut off or not
    | \bpkb_[A-Za-z0-9_-]{8,}                        # this site's tokens
    | \b(?:sk|rk|pk|xai|gsk|hf|r8)[-_][A-Za-z0-9_-]{12,}  # keys of model vendors and payment services
    | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,} | \bglpat-[\w-]{16,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b | \bAIza[\w-]{30,} | \bxox[abeoprs]-[\w-]{10,}
    | \beyJ[\w-]{8,512}\.[\w-]{8,8192}\.[\w-]{8,}    # a JSON web token
    """,
    re.VERBOSE | re.DOTALL,
)
# A value after a keyword: the keyword stays, so that the reader sees what was there.
_ANNOUNCED = re.compile(
    r"""(?ix)
    ( \b (?: authorization
          | (?:\w+[-_])? (?: api[-_]?key | access[-_]?key | secret (?:[-_]?key)? | token | passw(?:or)?d ) )
      ["']? \s* [:=] \s* (?: (?:bearer|basic)\s+ )? ["']? )
    ( [^\s"',;&]{6,} )
    """
)
_USER_IN_ADDRESS = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,30}://)[^\s/@:]+:[^\s/@]+@", re.IGNORECASE)


def redact(text: str) -> str:
    """`text` with `[redacted]` instead of keys, tokens, passwords and private keys that are recognisable as such."""
    text = _CREDENTIALS.sub(REDACTED, text)
    text = _ANNOUNCED.sub(lambda match: f"{match[1]}{REDACTED}", text)
    return _USER_IN_ADDRESS.sub(lambda match: f"{match['scheme']}{REDACTED}@", text)
