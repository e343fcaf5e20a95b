"""The commands of ``lightloom testbed``: all but ``up`` are about the testbed that is up."""
