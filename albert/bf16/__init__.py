"""The choice of operations that compute in bfloat16, and the conversion of graphs."""
