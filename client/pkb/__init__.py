"""Submit to ParallelKernelBench, follow what the judge says, and run models over its problems.

`Client` is the site; `pkb --help` the same as a command. Everything here speaks HTTP and knows nothing else of ours.
"""

from .client import Client
from .errors import ExitCode, PkbError, Refused, Unreachable, UsageError
from .runs import NewAttempt, NewRun

__all__ = ["Client", "ExitCode", "NewAttempt", "NewRun", "PkbError", "Refused", "Unreachable", "UsageError"]
