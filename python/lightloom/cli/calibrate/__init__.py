"""``lightloom calibrate``: what this machine or another tool measured, as a profile."""
