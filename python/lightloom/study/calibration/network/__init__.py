"""Start-ups and efficiencies of links, from what other tools measured on a cluster."""
