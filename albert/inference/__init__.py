"""From text to answers with a model that a run has trained: `load_model` and what it returns."""

from albert.inference.models import Model, load_model  # noqa: F401
