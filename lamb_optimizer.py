"""The module `albert.lamb_optimizer` under its name in the reference."""

import sys

from albert import lamb_optimizer

sys.modules[__name__] = lamb_optimizer
