"""`python -m evaluator`: judge, list problems, probe this machine."""

import sys

from evaluator.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
