"""Where the program meets hardware, cluster and disk."""
