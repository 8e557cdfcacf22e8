"""The version of this project: what `--version` prints and the record of a run holds."""

# The topmost section of CHANGELOG.md is about it.
VERSION = "0.2.0"
