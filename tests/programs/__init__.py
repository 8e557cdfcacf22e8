"""Programs that tests start under `mpirun`."""
