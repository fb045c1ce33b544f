"""Ask an address and end with 0 when it answers well: the health check of containers that have no curl."""

import sys
import urllib.error
import urllib.request


def main() -> int:
    """Ask the address that the command line names."""
    try:
        urllib.request.urlopen(sys.argv[1], timeout=5).close()  # noqa: S310 - the operator's own address
    except (urllib.error.URLError, OSError) as error:
        sys.stderr.write(f"{sys.argv[1]}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
