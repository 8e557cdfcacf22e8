"""HPU, GPU and CPU: which one there is, and its operations."""
