"""An allocator for Lightloom: a ring, whatever the demand."""

import numpy as np


def ring(requests):
    """Join each server to the next one, with half of the ports that both have."""
    proposals = []
    for request in requests:
        servers = len(request.demand)
        ports = np.broadcast_to(request.region.ports, servers)
        circuits = np.zeros((servers, servers), dtype=np.uint16)
        for one in range(servers):
            other = (one + 1) % servers
            if one != other:
                circuits[one, other] = circuits[other, one] = min(ports[one], ports[other]) // 2
        proposals.append(circuits)
    return proposals
