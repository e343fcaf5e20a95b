"""Steps of programs that are no language models: known ones by name, others by a table of phases.

:mod:`.phases` makes task graphs of who sends how many bytes to whom, phase after phase;
:mod:`.phase_table` reads such phases; :mod:`.nas` has the communication of parallel benchmarks, and
:mod:`.cnn` the training of convolutional networks.
"""
