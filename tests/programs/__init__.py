"""Programs that tests start under `mpirun`, and with less than Linux has."""
