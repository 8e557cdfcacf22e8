"""Settings of the programs: definitions of their flags, and the values."""
