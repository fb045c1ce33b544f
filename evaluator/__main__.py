"""`python -m evaluator`: judge, list problems, probe this machine."""

import signal
import sys

from evaluator.cli import main

if __name__ == "__main__":
    # Whoever ends this process ends its ranks with it: left alone they would hold their GPUs.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
