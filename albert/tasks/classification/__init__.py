"""The parts that tasks share that choose one of several labels, or predict a number."""
