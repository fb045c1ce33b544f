"""Ask an address of the site and end with 0 when it answers well: the health check of containers that have no curl.

The site answers to its own names only, so it is asked for the first of PKB_ALLOWED_HOSTS.
"""

import os
import sys
import urllib.error
import urllib.request


def main() -> int:
    """Ask the address that the command line names."""
    name = os.environ.get("PKB_ALLOWED_HOSTS", "localhost").split(",")[0]
    try:
        request = urllib.request.Request(sys.argv[1], headers={"Host": name})  # noqa: S310 - the operator's own address
        urllib.request.urlopen(request, timeout=5).close()  # noqa: S310 - the same
    except (urllib.error.URLError, OSError) as error:
        sys.stderr.write(f"{sys.argv[1]}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
