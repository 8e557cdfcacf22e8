"""The module `albert.classifier_utils` under its name in the reference."""

import sys

from albert import classifier_utils

sys.modules[__name__] = classifier_utils
