"""The foundation of all other rooms: errors, files, locks, signals."""
