"""`python -m components.programs.hydrator`: the same as the bundle, out of the source tree."""

import sys

from components.programs.hydrator.main import main

sys.exit(main())
