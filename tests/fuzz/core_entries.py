"""What the functions of the core that compute something are called with, drawn at random."""

from typing import Any

import numpy as np
from tests.fuzz.draws import Draws

from lightloom.schedule import choices, core_requests
from lightloom.schedule.topoopt import Ring

GBPS = 10**9
NAMES = {
    key: [*choices(key)]
    for key in (
        "allocator", "chunk method", "cycling", "estimator", "hybrid method", "permutation method",
        "plane_choice", "planes", "predictor", "reading", "rule", "when", "strides", "transport",
        "turning",
    )
}  # fmt: skip
U16, U32, U64 = np.uint16, np.uint32, np.uint64


def circuit_request(draw: Draws, previous: Any = None) -> core_requests.CircuitRequest:
    return core_requests.CircuitRequest(
        draw.demand(),
        draw.column(U32, "few"),
        draw.optional(lambda: draw.symmetric(np.bool_, "flags")),
        previous,
        draw.number(400 * GBPS, GBPS, 1),
        draw.column(U64, "rates"),
        draw.flag(),
    )


def with_circuits(draw: Draws) -> tuple[core_requests.CircuitRequest, Any]:
    """A request with as many ports as some circuits need, or nearly."""
    circuits = draw.symmetric()
    request = circuit_request(draw)
    if isinstance(circuits, np.ndarray) and circuits.ndim == 2 and not draw.odd():
        allowed = circuits > 0 if request.allowed is not None else None
        ports = circuits.sum(axis=1).astype(U32)
        request = request._replace(ports=ports + U32(draw.rng.randrange(2)), allowed=allowed)
    return request, circuits


def failures(draw: Draws) -> Any:
    rng, servers = draw.rng, max(1, draw.side)

    def ends(count: int) -> list[tuple[int, int]]:
        return [(rng.randrange(servers), rng.randrange(2)) for _ in range(count)]

    return draw.namespace(
        nics=draw.pick([ends(rng.randrange(2))]),
        eps_nics=draw.pick([ends(rng.randrange(2))]),
        servers=draw.pick([[rng.randrange(servers) for _ in range(rng.randrange(2))]]),
        planes=draw.pick([[0] * rng.randrange(2)]),
    )


def region_values(draw: Draws) -> dict[str, Any]:
    kinds = draw.rng.choice(["few", "equal"])
    ports = draw.column(np.uint32, "few")
    if kinds == "equal" and isinstance(ports, np.ndarray):
        ports = np.full(ports.shape, draw.rng.choice([2, 3, 4]), np.uint32)
    return vars(
        draw.namespace(
            ports=ports,
            allowed=draw.optional(lambda: draw.symmetric(np.bool_, "flags")),
            planes=draw.pick([None, draw.pick(NAMES["planes"])]) if kinds == "equal" else None,
            numa_nodes=draw.number(1, 1, 2),
            circuit_gbps=draw.number(400, 1),
            eps_gbps=draw.pick([draw.column(np.float64, "few"), draw.number(800, 0)]),
            eps_nics=draw.number(2, 2, 3),
            split=draw.flag(),
            failed=draw.optional(lambda: vars(failures(draw))) if draw.chance(0.3) else None,
        )
    )


def working_region(draw: Draws) -> tuple:
    return draw.side, region_values(draw)


def allocate(draw: Draws) -> tuple:
    previous = draw.optional(draw.symmetric)
    tolerance = draw.pick([0.0, 0.0, 0.1, 1.0, 1e300, -1.0, float("nan")])
    return draw.pick(NAMES["allocator"]), circuit_request(draw, previous), tolerance


def allocate_each(draw: Draws) -> tuple:
    demands = draw.array(U64, (draw.rng.randrange(3), draw.side, draw.side), "bytes")
    return draw.pick(NAMES["allocator"]), circuit_request(draw), demands


def changed_pairs(draw: Draws) -> tuple:
    return draw.matrix(U16, "few"), draw.matrix(U16, "few")


def nic_rows(draw: Draws, maximum: int = 6) -> Any:
    """Rows of server, NIC, server, NIC, mostly each NIC once and the lower server first."""
    if draw.odd():
        return draw.rows(U32, 4, "few", maximum)
    servers, rows = max(2, draw.side), []
    for nic in range(draw.rng.randrange(maximum + 1)):
        first, second = sorted(draw.rng.sample(range(servers), 2))
        rows.append((first, nic, second, nic))
    return np.array(rows, U32).reshape(-1, 4)


def map_nics(draw: Draws) -> tuple:
    circuits = draw.symmetric()
    ports, width = draw.column(U32, "few"), 3
    if isinstance(circuits, np.ndarray) and circuits.ndim == 2 and not draw.odd():
        ports = circuits.sum(axis=1).astype(U32) + U32(draw.rng.randrange(2))
        width = int(ports.max(initial=0))
    sort = draw.rng.choice(["equal", "flags"])
    working = draw.array(np.bool_, (draw.side, width), sort)
    if sort == "equal" and isinstance(working, np.ndarray) and working.dtype == np.bool_:
        working = np.ones_like(working)
    return circuits, ports, working, draw.number(1, 1, 2, 3, 0), nic_rows(draw)


def planes(draw: Draws) -> tuple:
    width = draw.rng.choice([0, 1, 2, 3, 4, 6])
    working = draw.array(np.bool_, (draw.side, width), draw.rng.choice(["flags", "equal"]))
    # the effort is the time that the caller grants
    return draw.symmetric(), working, draw.flag(), draw.pick([0, 1, 10, 200, 2_000])


def build_on_planes(draw: Draws) -> tuple:
    circuits, working, duplex, _ = planes(draw)
    return circuit_request(draw), circuits, working, duplex


def switch_timing(draw: Draws) -> dict[str, Any]:
    """The fields of a switch's timing, some of them left out."""
    fields = {"fixed_s": draw.pick([0.0, 1e-3, 25e-3, 1e6, -1.0, float("nan")])}
    for name in ("per_pair_s", "control_s", "link_up_s"):
        if draw.chance(0.5):
            fields[name] = draw.pick([0.0, 1e-6, 5.67])
    return fields | ({"keep_unchanged": draw.flag()} if draw.chance(0.5) else {})


def switching_time_s(draw: Draws) -> tuple:
    return draw.namespace(**switch_timing(draw)), draw.number(0, 1, 6, 1_000)


def record_values(draw: Draws) -> tuple:
    return draw.pick(["SwitchTiming", "SwitchTiming", "RelayCost", "moon"]), switch_timing(draw)


def plan_batches(draw: Draws) -> tuple:
    return nic_rows(draw), nic_rows(draw), draw.column(np.bool_, "flags"), draw.number(2, 3, 4, 20)


def topoopt(draw: Draws) -> tuple:
    servers = max(1, draw.side)

    def ring() -> Any:
        members = draw.rng.sample(range(servers), draw.rng.randrange(servers + 1))
        return Ring(draw.pick([members]), draw.size(), draw.number(0, 0, 1, 2))

    count = draw.rng.randrange(5)
    ends = [draw.plain(U32, (count,), "indices") % U32(servers) for _ in range(2)]
    return (
        draw.number(servers),
        draw.number(1, 2, 3, 4, 8),
        draw.number(0, 1, 2, 4),
        draw.pick([[ring() for _ in range(draw.rng.randrange(3))]]),
        draw.pick(NAMES["strides"]),
        (draw.pick([ends[0]]), draw.pick([ends[1]]), draw.array(U64, (count,), "bytes")),
        draw.array(U32, (draw.rng.choice([0, count, count]),), "few"),
    )


def decompose(draw: Draws) -> tuple:
    switches = draw.rng.choice([1, 1, 1, 2, 3])
    partial = draw.pick([False, False, True] if switches == 1 else [False])
    method = draw.pick(NAMES["permutation method"])
    takes_previous = switches == 1 and str(method) in ("auto", "previous") and partial is False
    width = max(0, draw.side + draw.rng.choice([0, 0, 0, -1, 1]))
    demand = draw.array(U64, (draw.side, width), draw.rng.choice(["bytes", "few", "equal"]))
    slots = draw.rng.randrange(4)

    def previous() -> tuple:
        matchings = draw.array(np.int32, (slots, draw.side), "peers")
        if draw.chance(0.7):
            matchings = np.array([draw.permutation(draw.side) for _ in range(slots)], np.int32)
            matchings = matchings.reshape(slots, draw.side)
        return matchings, draw.array(U64, (slots,), "bytes"), draw.number(0, 1, 2)

    limit = draw.pick([0.0, 0.0, 1e-4, -1.0, float("nan"), 1e300])
    held = previous() if takes_previous and draw.chance(0.6) else None
    return demand, draw.size(), partial, method, limit, draw.number(switches), held


def decomposition_bound(draw: Draws) -> tuple:
    switches = draw.rng.choice([1, 1, 2, 3])
    return draw.demand(), draw.size(), draw.pick([switches == 1, False]), draw.number(switches)


def transfer_slots(draw: Draws) -> tuple:
    rows = max(1, draw.side)
    return draw.number(rows), draw.size(), draw.lines(U64, 4, slice(2), rows)


def color_edges(draw: Draws) -> tuple:
    edges = draw.rows(U32, 2, "few", maximum=12)
    return edges, draw.optional(lambda: draw.number(0, 3, 6, 12, 20))


def shape_of_fabric(draw: Draws) -> tuple[int, dict[str, Any]]:
    """Hosts, and a fabric that has room for them."""
    leaf, leaves, pods = draw.rng.choice([1, 2, 3]), draw.rng.choice([1, 2, 3]), None
    shape = {"leaf": draw.number(leaf), "spines": draw.number(leaf, leaf + 1, 0)}
    if draw.chance(0.5):
        pods = draw.rng.choice([1, 2])
        shape |= {"pod": draw.number(leaves), "cores": draw.number(leaves, 3 * leaves)}
    return leaf * leaves * (pods or 1), shape


def route_permutation(draw: Draws) -> tuple:
    hosts, shape = shape_of_fabric(draw)
    return draw.pick([draw.permutation(hosts)]), shape


def weights(draw: Draws) -> tuple:
    width = max(0, draw.side + draw.rng.choice([0, 0, 1, -1, 3]))
    return (draw.array(np.int64, (draw.side, width), "signed"),)


def symmetric_weights(draw: Draws) -> tuple:
    return (draw.symmetric(np.int64, draw.rng.choice(["few", "signed"])),)


def relay_cost(draw: Draws) -> Any:
    return draw.namespace(
        nvswitch_gbps=draw.optional(lambda: draw.number(1, 400, 1e-9)),
        chunk_bytes=draw.number(0, 1_000, 10**6),
        relay_delay_s=draw.number(0, 1e-9, 1e-3),
        memory_limit_bytes=draw.optional(draw.size),
    )


def routing(draw: Draws) -> core_requests.RoutingRequest:
    rate, eps = draw.number(400 * GBPS, GBPS, 1), draw.number(100 * GBPS, 0, 1)
    return core_requests.RoutingRequest(
        draw.demand(), draw.symmetric(), rate, eps, relay_cost(draw)
    )


def relay(draw: Draws) -> tuple:
    return (routing(draw),)


def relay_bound(draw: Draws) -> tuple:
    prices = draw.matrix(np.float64, "shares"), draw.array(np.float64, (3, draw.side), "shares")
    return routing(draw), *prices


def allocate_relayed(draw: Draws) -> tuple:
    request = circuit_request(draw, draw.optional(draw.symmetric))
    return request, relay_cost(draw), draw.number(0, 1, 3)


def rotor(draw: Draws, slot: Any = None) -> dict[str, Any]:
    return {
        "switches": draw.number(1, 1, 2, 3, 8),
        "slot_bytes": slot,
        "delay_bytes": draw.size(),
        "held": draw.flag(),
        "relay": draw.flag(),
        "cycling": draw.pick(NAMES["cycling"]),
    }


def rotornet(draw: Draws) -> tuple:
    slot = draw.optional(lambda: draw.number(10**6, 10**7, 10**9))
    return draw.demand(), rotor(draw, slot)


def epochs(draw: Draws) -> dict[str, Any]:
    return {
        "switches": draw.number(1, 2, 3, 4, 8),
        "epoch_bytes": draw.number(10**6, 10**7, 10**9),
        "delay_bytes": draw.number(0, 10, 1_000),
    }


def helios(draw: Draws) -> tuple:
    return draw.demand(), epochs(draw)


def rule(draw: Draws) -> Any:
    return draw.pick(NAMES["rule"])


def reading(draw: Draws) -> Any:
    return draw.pick(NAMES["reading"])


def settings(draw: Draws, count: int) -> Any:
    below = max(1, draw.side // 2)
    pairs = [(draw.rng.randrange(below), draw.number(0)) for _ in range(count)]
    return draw.pick([pairs])


def xnest_plan(draw: Draws) -> tuple:
    switches = draw.number(1, 2, 3, 8)
    held = draw.optional(lambda: settings(draw, min(switches, 9) if type(switches) is int else 2))
    return draw.demand(), switches, reading(draw), rule(draw), held


def sub_matrices(draw: Draws) -> tuple:
    # the answer has n x n x n cells or so: what is large takes its memory
    nodes = draw.number(*range(40))
    return nodes, reading(draw)


def helios_step(draw: Draws) -> tuple:
    options, held = epochs(draw), None
    if draw.chance(0.7) and type(options["switches"]) is int:
        count = max(0, min(options["switches"], 9))
        rows = [draw.permutation(draw.side) for _ in range(count)]
        held = np.array(rows, np.int32).reshape(count, draw.side)
    hysteresis = draw.optional(lambda: draw.number(0, 10, 1_000))
    return draw.demand(), draw.pick([held]), options, hysteresis


def xnest_step(draw: Draws) -> tuple:
    options = epochs(draw)
    count = min(options["switches"], 9) if type(options["switches"]) is int else 2
    held = draw.pick([[], settings(draw, count)])
    hysteresis = draw.optional(lambda: draw.number(0, 10, 1_000))
    return draw.demand(), held, options, reading(draw), draw.pick(NAMES["turning"]), hysteresis


def rotor_slot(draw: Draws) -> tuple:
    relayed = draw.lines(U64, 4, slice(3), max(1, draw.side))
    if not draw.odd():
        count = draw.rng.randrange(4) if draw.side > 2 else 0
        rows = [(*draw.rng.sample(range(draw.side), 3), 1_000) for _ in range(count)]
        relayed = np.array(rows, U64).reshape(-1, 4)
    slot = draw.number(10**5, 10**6, 10**9, 100)
    return draw.demand(), relayed, rotor(draw, slot), draw.number(0, 1, 7, 10**6)


def over_time(draw: Draws) -> tuple:
    arrivals = [draw.demand() for _ in range(draw.rng.randrange(4))]
    controller = (
        draw.pick(["helios", "xnest-plus"]),
        draw.pick(NAMES["estimator"]),
        draw.number(1, 100, 500, 1_000),
        draw.optional(lambda: draw.number(0, 10, 1_000)),
    )
    return draw.pick([arrivals]), epochs(draw), *controller


def ports(draw: Draws) -> dict[str, Any]:
    circuit = draw.rng.choice([400 * GBPS, GBPS, 4])
    eps = draw.number(circuit // 4, circuit)
    return {"delay_bytes": draw.size(), "circuit_bps": draw.number(circuit), "eps_bps": eps}


def patience(draw: Draws) -> Any:
    return draw.pick([None, None, 0.0, 1e-4, -1.0, float("nan")])


def hybrid_plan(draw: Draws) -> tuple:
    width = max(0, draw.side + draw.rng.choice([0, 0, 0, -1, 1]))
    demand = draw.array(U64, (draw.side, width), draw.rng.choice(["bytes", "few", "equal"]))
    return demand, ports(draw), draw.pick(NAMES["hybrid method"]), patience(draw), draw.flag()


def hybrid_bound(draw: Draws) -> tuple:
    return draw.demand(), ports(draw), draw.flag()


def chunk_request(draw: Draws) -> tuple:
    """Chunks, the numbers of rows and columns, and ports."""
    rows = max(1, draw.side)
    columns = rows + draw.rng.choice([0, 0, 1])
    chunks = draw.lines(U64, 5, slice(2), rows, maximum=8)
    if isinstance(chunks, np.ndarray) and chunks.shape[1:] == (5,) and draw.chance(0.5):
        chunks = chunks.copy()
        chunks[:, 4] = draw.plain(chunks.dtype, (len(chunks),), "due")
    return chunks, draw.pick([(draw.number(rows), draw.number(columns))]), ports(draw)


def chunk_plan(draw: Draws) -> tuple:
    return *chunk_request(draw), draw.pick(NAMES["chunk method"]), patience(draw)


def text(draw: Draws, *known: str) -> Any:
    """A known text, mostly, or letters of any kind."""
    if draw.chance(0.7):
        return draw.pick(known)
    return "".join(draw.rng.choice("ax-_ \0\n\u00e9\u2028\U0001f600{}") for _ in range(3))


def names(draw: Draws) -> tuple:
    return (text(draw, "allocator", "transport", *NAMES),)


def profile(draw: Draws) -> tuple:
    rate = draw.number(0, 1, GBPS, 100 * GBPS, 400 * GBPS, 1_600 * GBPS)
    return text(draw, *NAMES["transport"]), rate, draw.pick([packet_network(draw), None])


def draw_request(draw: Draws, *, wide: bool = False) -> dict[str, Any]:
    """Of as many experts as the side, or of a few for each rank."""
    ranks, layers = draw.rng.choice([1, 2, 4, 8]), draw.rng.randrange(3)
    experts, batches = max(1, draw.side), draw.rng.choice([1, 2, 3])
    experts = ranks * draw.rng.choice([1, 2]) if wide else experts
    alpha = draw.array(
        np.float64,
        (layers, draw.rng.choice([1, batches]), experts),
        draw.rng.choice(["shares", "positive", "positive", "floats"]),
    )
    return {
        "ranks": draw.pick([ranks]),
        "experts": draw.pick([experts]),
        "copies_per_rank": draw.number(0, 1, 16, 1_000),
        "tokens_per_rank": draw.number(1_000, 16, 10**6),
        "shares_key": draw.pick([(draw.number(0, 1), 2)]),
        "routing_key": draw.pick([(3, draw.number(0, 1))]),
        "group": draw.number(0, 1, 10**6),
        "step": draw.number(0, 1, 10**6),
        "layers": draw.array(U64, (layers,), "indices"),
        "micro_batches": draw.pick([batches]),
        "spans": draw.optional(lambda: draw.array(U64, (layers,), "few")),
        "alpha": alpha,
    }


def demand_draw(draw: Draws) -> tuple:
    return (draw_request(draw),)


def demand_fold(draw: Draws) -> tuple:
    request = draw_request(draw, wide=True)
    members = 2 ** draw.rng.randrange(4) if draw.odd() else request["ranks"]
    return request, draw.number(members, 1), draw.flag()


def demand_sum(draw: Draws) -> tuple:
    return (draw_request(draw, wide=True),)


def demand_reach(draw: Draws) -> tuple:
    groups, wide = draw.rng.choice([1, 2, 4]), draw.rng.choice([1, 2, 4])
    slots = draw.rng.randrange(1, groups + 1)
    experts = groups * wide
    top = draw.rng.randrange(1, slots * wide + 1)
    members = draw.rng.choice([1, groups, experts])
    gate = {
        "experts": draw.number(experts), "members": draw.number(members),
        "groups": draw.number(groups), "slots": draw.number(slots), "top_k": draw.number(top),
    }  # fmt: skip
    sort = draw.rng.choice(["shares", "shares", "floats"])
    return gate, draw.array(np.float64, (draw.rng.randrange(5), experts), sort)


def links(draw: Draws) -> dict[str, Any]:
    """Switches, and links between hosts and these."""
    switches = draw.pick([[text(draw, "a", "b") for _ in range(draw.rng.randrange(3))]])
    columns = ([0, 1, 2, 3], [0, 1, 2, 3], [GBPS, 400 * GBPS, 0], [0, 1_000, 10**6])
    rows = [tuple(draw.number(*values) for values in columns) for _ in range(draw.rng.randrange(5))]
    return {"switches": switches, "links": draw.pick([rows])}


#: sizes of each topology, for those that have some
SIZES = {
    "fat-tree": {"radix": (4, 8, 16)},
    "leaf-spine": {
        "hosts_per_leaf": (1, 2, 3, 4), "spines": (1, 2, 3, 4), "uplink_rate_bps": (GBPS,),
    },
    "rail": {
        "hosts_per_server": (1, 2, 4), "nvlink_rate_bps": (GBPS,), "nvlink_delay_ps": (1_000,),
    },
    "dragonfly": {
        "hosts_per_switch": (1, 2, 3, 4), "switches_per_group": (1, 2, 3, 4),
        "global_links": (1, 2, 3),
    },
}  # fmt: skip


def packet_network(draw: Draws) -> dict[str, Any]:
    name = text(draw, "fat-tree", "star", "leaf-spine", "rail", "dragonfly", "links")
    # what is large and can be had takes its memory, up to 4 million links: these are small
    hosts = draw.rng.choice((2**22, 2**32 - 1, -1, 0, 3) if draw.odd() else (1, 2, 4, 4, 8, 16, 64))
    topology = name if isinstance(name, str) else ""
    known = SIZES.get(topology, {})
    sizes = {key: draw.rng.choice((*values, 0, -1)) if draw.odd() else draw.rng.choice(values)
             for key, values in known.items()}  # fmt: skip
    return {
        "hosts": hosts,
        "rate_bps": draw.number(GBPS, 400 * GBPS),
        "link_delay_ps": draw.number(0, 10**6),
        "planes": draw.rng.choice((1, 1, 2, 3)),
        "plane_choice": draw.pick(NAMES["plane_choice"]),
        "shape": {"topology": name, **(links(draw) if topology == "links" else sizes)},
    }


#: the arguments of each function
CALLS = {
    "schedule_allocate": allocate,
    "schedule_allocate_each": allocate_each,
    "schedule_route": with_circuits,
    "schedule_makespan": with_circuits,
    "schedule_port_bound": lambda draw: (circuit_request(draw),),
    "schedule_line_bound": lambda draw: (circuit_request(draw, draw.optional(draw.symmetric)),),
    "schedule_changed_pairs": changed_pairs,
    "schedule_map_nics": map_nics,
    "schedule_working_region": working_region,
    "schedule_assign_planes": lambda draw: (*planes(draw), draw.optional(lambda: nic_rows(draw))),
    "schedule_build_on_planes": build_on_planes,
    "schedule_plan_batches": plan_batches,
    "record_fields": lambda draw: (draw.pick(["SwitchTiming", "RelayCost", "moon", ""]),),
    "record_values": record_values,
    "switching_time_s": switching_time_s,
    "schedule_topoopt": topoopt,
    "schedule_decompose": decompose,
    "schedule_decomposition_bound": decomposition_bound,
    "schedule_transfer_slots": transfer_slots,
    "schedule_color_edges": color_edges,
    "schedule_route_permutation": route_permutation,
    "schedule_assign": weights,
    "schedule_match_general": symmetric_weights,
    "schedule_relay": relay,
    "schedule_relay_bound": relay_bound,
    "schedule_allocate_relayed": allocate_relayed,
    "schedule_rotornet": rotornet,
    "schedule_helios": helios,
    "schedule_helios_matchings": helios,
    "schedule_xnest_plus": lambda draw: (*helios(draw), reading(draw)),
    "schedule_xnest_plan": xnest_plan,
    "schedule_sub_matrices": sub_matrices,
    "schedule_helios_step": helios_step,
    "schedule_xnest_step": xnest_step,
    "schedule_rotor_slot": rotor_slot,
    "schedule_over_time": over_time,
    "schedule_hybrid_plan": hybrid_plan,
    "schedule_hybrid_bound": hybrid_bound,
    "schedule_chunk_plan": chunk_plan,
    "schedule_chunk_bound": chunk_request,
    "choices": names,
    "packet_profile": profile,
    "packet_topology": lambda draw: (packet_network(draw),),
    "demand_draw": demand_draw,
    "demand_fold": demand_fold,
    "demand_reach": demand_reach,
    "demand_sum": demand_sum,
}
