"""`python -m simdconv` is the command `simdconv`."""

import sys

from simdconv.cli import main

sys.exit(main())
