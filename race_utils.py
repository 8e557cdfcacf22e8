"""The module `albert.race_utils` under its name in the reference."""

import sys

from albert import race_utils

sys.modules[__name__] = race_utils
