"""The module `albert.squad_utils` under its name in the reference."""

import sys

from albert import squad_utils

sys.modules[__name__] = squad_utils
