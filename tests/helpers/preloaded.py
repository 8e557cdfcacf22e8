"""What most programs import, for the server that forks them; not Horovod, which may be missing."""

import albert.preflight.checks  # noqa: F401
from albert.core import estimators
from albert.tasks import TASKS

# Imported when they are first used.
LOADED = estimators.Estimator, [entry.load("task") for entry in TASKS]
