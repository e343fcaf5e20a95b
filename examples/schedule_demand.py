"""From demand to circuits: a checked schedule, circuits, and whether to change them."""

from lightloom.demand import rank_matrix, synthetic
from lightloom.schedule import (
    PERMUTATION_METHODS,
    Decider,
    Region,
    allocate_region,
    decompose,
)

# bytes that 8 servers dispatch to each other in one MoE layer, tokens of 4,096 BF16 elements
source = synthetic("pair", ranks=8, experts=8, tokens_per_rank=16_384, top_k=2, seed=1)
tokens = source.tokens(group=0, layers=[0], micro_batches=1, step=0)[0, 0]
demand = rank_matrix(tokens).astype("uint64") * 8192

print("Permutations of one crossbar at 400 Gb/s, 100 us per reconfiguration")
for method in (*PERMUTATION_METHODS, "auto"):
    found = decompose(demand, delay_s="100 us", rate_gbps=400, method=method)
    found.check(demand)
    print(
        f"  {method:12} {1e3 * found.length_s:6.2f} ms in {found.configurations:2} configurations, "
        f"{found.over_bound:.3f} x the lower bound"
    )

print("Circuits of 4 ports at 400 Gb/s and 800 Gb/s of packet switches per server")
region = Region(ports=4, circuit_gbps=400, eps_gbps=800)
for method in ("static", "paper", "greedy", "best"):
    circuits = allocate_region(demand, region, method=method)
    print(f"  {method:12} {1e3 * circuits.makespan_s:6.2f} ms")

for delay in ("25 ms", "10 us"):
    decider = Decider(8, region, timing=delay)
    print(f"{delay} to switch. {decider.decide(decider.start(), demand)}")
