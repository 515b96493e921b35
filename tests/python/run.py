"""Runs a file of tests, or some of its classes; ends with 77 when every test was skipped.

    run.py FILE [CLASS...]
"""

import os
import sys
import unittest


def main():
    folder, name = os.path.split(os.path.realpath(sys.argv[1]))
    sys.path.insert(0, folder)
    # Packages that are only looked for where this Python has none of that name.
    sys.path.append(os.environ.get("FOREBAY_TEST_PACKAGES", ""))
    module = os.path.splitext(name)[0]
    suite = unittest.defaultTestLoader.loadTestsFromNames(
        [f"{module}.{part}" for part in sys.argv[2:]] or [module])
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    if not result.testsRun:
        sys.exit("no tests were found")
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if len(result.skipped) == result.testsRun else 0)


if __name__ == "__main__":
    main()
