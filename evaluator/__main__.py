"""`python -m evaluator`: judge, list problems, probe this machine."""

import signal
import sys

from evaluator.cli import main

if __name__ == "__main__":
    # A signal that ends this process also ends its ranks, which would otherwise hold their GPUs.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
