"""The version of this project, which `--version` prints and the record of a run contains."""

# The topmost section of CHANGELOG.md describes this version.
VERSION = "0.2.0.dev0"
