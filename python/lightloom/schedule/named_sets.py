"""The closed sets of names that the core knows, each with what it stands for.

A set is a table in the core (``choices!`` in ``crates/model``) and nowhere else: what is added
there can be given to every function and option, and appears in their help and errors. A set maps
names to one-line descriptions, in the order in which messages list them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lightloom import _core


def choices(key: str) -> Mapping[str, str]:
    """Return the descriptions of a set of the core by name.

    Returns
    -------
    Mapping of str to str
        What each name means.

    Raises
    ------
    ValueError
        If the core has no set of this key; says which there are.

    Examples
    --------
    >>> from lightloom.schedule import choices
    >>> list(choices("planes"))
    ['duplex', 'crossed']
    """
    return MappingProxyType(dict(_core.choices(key)))


#: functions that turn the demand of a region into circuits
ALLOCATORS = choices("allocator")
#: allocators of :func:`~lightloom.schedule.allocate_region`: those of the core, and one more
ALLOCATION_METHODS: Mapping[str, str] = {
    **ALLOCATORS,
    "exact": "Proved by integer programming (HiGHS), in tens of milliseconds and more",
}
#: when circuits follow the demand during a run
WHEN_POLICIES = choices("when")
#: what the first all-to-all of the forward pass does, whose demand is known only at the gate
FIRST_ALL_TO_ALL_MODES = choices("first")
#: how fibers are laid where NIC i of every server is on circuit switch i
PLANES = choices("planes")
#: how an all-to-all is spread over the NICs of a server
ALL_TO_ALL_STRATEGIES = choices("all_to_all")
#: how what was measured of the traffic of racks becomes what is expected
ESTIMATORS = choices("estimator")
#: how the traffic matrix of X-NEST+ is split, and how many switches each part gets
READINGS, SWITCH_RULES = choices("reading"), choices("rule")
#: which matchings a rotor switch holds, and when it turns
CYCLINGS = choices("cycling")
