"""The module `albert.fine_tuning_utils` under its name in the reference."""

import sys

from albert import fine_tuning_utils

sys.modules[__name__] = fine_tuning_utils
