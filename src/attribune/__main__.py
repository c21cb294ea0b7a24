"""``python -m attribune``, the same as the command ``attribune``."""

import sys

from attribune.apps.cli import main

sys.exit(main())
