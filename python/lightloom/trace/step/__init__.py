"""The task graph of a step of a traced program: see :mod:`.build`."""
