"""Traces that other tools record, read into the same :class:`~lightloom.trace.trace.Trace`."""
