"""The foundation of the other packages: errors, files, locks, signals and the log."""
