"""An emulated optical circuit switch, with the protocols that real ones speak."""
