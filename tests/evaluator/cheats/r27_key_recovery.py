"""Row 27, key recovery: looks for keys in everything that the interpreter holds, and signs a report with them.

Problem: allreduce
Mode: check
Accepted: WRONG_RESULT, TAMPERED
"""

import gc
import hashlib
import hmac


def _keys():
    for thing in gc.get_objects():
        values = thing.values() if type(thing) is dict else ()
        for value in list(values):
            if type(value) is bytes and len(value) == 32:
                yield value
            elif type(value) is str and len(value) == 64 and all(letter in "0123456789abcdef" for letter in value):
                yield bytes.fromhex(value)


def solution(tensor):
    for key in _keys():
        print(hmac.new(key, b"PASSED", hashlib.sha256).hexdigest())
    return tensor * 2
