"""What one export needs: `python -m tools.bench.export_memory evaluations csv` with the environment of a site.

It writes the table in the format to a file that is deleted, and prints one line of JSON: rows, bytes and processor
time. The line also has the process's peak of memory before the first row, after a tenth of the rows and at the end. If
the last two are alike, the export needs the same memory for any number of rows. Each export has a process of its own,
because a peak never falls.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Iterator

import django


def peak_mib() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Write, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table")
    parser.add_argument("format")
    parser.add_argument("--rows", type=int, default=0, help="how many the table has, where that is known")
    chosen = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    django.setup()
    from portal.exports.tables import TABLES
    from portal.tabular.tables import Row, Table, written

    table = TABLES[chosen.table]
    noted: dict[str, float] = {"start": peak_mib(), "tenth": 0.0}
    rows = 0

    class Counted(Table):
        def rows(self) -> Iterator[Row]:
            nonlocal rows
            for rows, row in enumerate(super().rows(), 1):
                if rows == chosen.rows // 10:
                    noted["tenth"] = peak_mib()
                yield row

    size, began = 0, time.process_time()
    with tempfile.TemporaryFile() as file:
        for piece in written(Counted(**vars(table)), format=chosen.format):
            size += file.write(piece)
    taken = {"rows": rows, "bytes": size, "processor_s": time.process_time() - began, **noted, "end": peak_mib()}
    print(json.dumps(taken))


if __name__ == "__main__":
    main()
