"""What everything else rests on: errors, files, locks, signals."""
