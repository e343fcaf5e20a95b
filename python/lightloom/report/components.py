"""Parts of a network in words."""

#: parts of a network's price, in words
COMPONENTS = {
    "nic": "NICs",
    "eps_port": "packet switch ports",
    "crossbar_port": "crossbar ports",
    "transceiver": "transceivers",
    "tunable_transceiver": "transceivers with tunable lasers",
    "long_reach_transceiver": "long-reach transceivers",
    "linear_transceiver": "linear transceivers",
    "co_packaged": "co-packaged optics",
    "ocs_port": "circuit switch ports",
    "patch_port": "patch panel ports",
    "switch_1x2": "1x2 optical switches",
    "fiber": "fiber",
    "dac": "copper cables (DAC)",
    "aoc": "optical cables (AOC)",
}
