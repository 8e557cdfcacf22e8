"""Hundreds of bad inputs, and the line with which each program must refuse them."""
