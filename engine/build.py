#!/usr/bin/env python3
"""Build the engine tier: `python3 engine/build.py [--print-path] [--json]`.

Needs Python 3.11 and Go, no package beside the standard library. What is built and why: `engine/builder/recipe.py`.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 - this file runs with whatever python3 the machine has
        sys.exit(f"engine/build.py needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}")
    # A script's import root is its own folder; the packages stand one above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from engine.builder.command import main

    sys.exit(main())
