"""What holds for any cluster and any options."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.cost import PartsCostModel, pareto_front
from lightloom.errors import InputError
from lightloom.fabric import FABRICS, Cluster, Counting, MixNet, load_fabric
from lightloom.fabric.tree import plan_tree, tree_links
from lightloom.hardware import load_prices

PRICES = load_prices()
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), st.integers()),
)  # fmt: skip


def attempt(name, options=None):
    """The fabric and no refusal, or none and why."""
    try:
        return load_fabric(name, options), ""
    except InputError as error:
        return None, str(error)


#: fabrics of up to 1,024 racks that grow with them
RACKS = ("rotornet", "opera", "helios")
#: X-NEST+ has more circuits, and pods, the larger it is; a torus whole cubes
PROPORTIONAL = sorted(set(FABRICS) - {"x-nest-plus", "torus"})


@given(st.integers(1, 40_000), st.sampled_from(PROPORTIONAL))
@settings(deadline=None)
def test_cost_grows_with_the_cluster_and_is_close_to_proportional(gpus, kind):
    # as the MixNet paper counts: the same tiers, one panel or crossbar for every size
    own = {
        "topoopt": {"panel": "flat"},
        "chronos": {"crossbar_ports": 1_000_000},
        **{key: {"gpus_per_server": 8} for key in ("nvl72", "mixnet-optical-io")},
    }
    own |= {name: {"servers_per_rack": 1, "ocs_ports": 1_000_000} for name in RACKS}
    gpus = 1 + gpus % 8000 if kind in RACKS else gpus
    fabric = FABRICS[kind](**own.get(kind, {}))

    def total(number):
        cluster = Cluster.of(gpus=number, rate_gbps=400, gpu="h100")
        bill = fabric.bill_of_materials(cluster, Counting(tiers=3))
        return PartsCostModel().capital_cost(bill, PRICES).total_usd, cluster.servers

    (cost, servers), (more, more_servers) = total(gpus), total(gpus + 8)
    assert more_servers == servers + 1
    assert more > cost
    per_server = PartsCostModel().capital_cost(
        fabric.bill_of_materials(
            Cluster.of(gpus=48 * 64, rate_gbps=400, gpu="h100"), Counting(tiers=3)
        ),
        PRICES,
    ).total_usd / 384  # fmt: skip
    # rounding uplinks up costs at most one of them per ToR
    assert cost >= per_server * servers * (1 - 1e-9)
    assert cost <= per_server * servers * 1.04 + 2 * 7000


@given(
    st.integers(1, 3000), st.integers(1, 16), st.sampled_from([16, 32, 64, 128]),
    st.floats(1, 8), st.booleans(),
)  # fmt: skip
def test_no_switch_of_a_tree_has_too_few_ports(servers, nics, ports, ratio, rail):
    try:
        tree = plan_tree("test", servers, nics, ports, ratio=ratio, rail=rail)
    except InputError:
        return
    if tree.tiers(servers) == 1:
        assert tree.nics_per_tor <= ports
        return
    assert tree.nics_per_tor + tree.uplinks_per_tor <= ports
    assert tree.uplinks_per_tor * ratio >= tree.nics_per_tor * (1 - 1e-9)
    assert tree.servers_per_pod % tree.servers_per_tor == 0
    links = tree_links(tree, servers, 3)
    assert links.hosts == servers * nics
    assert links.fabric[0] * ratio >= links.hosts * (1 - 1e-9)
    tors = -(-servers // tree.servers_per_tor) * tree.rails
    assert links.fabric[0] <= tors * tree.uplinks_per_tor


@given(st.integers(1, 5000), st.integers(1, 7))
@settings(deadline=None)
def test_every_mixnet_nic_is_either_packet_or_optical(gpus, degree):
    cluster = Cluster.of(gpus=gpus, rate_gbps=400, gpu="h100")
    bill = MixNet(ports=degree).bill_of_materials(cluster, Counting(tiers=1))
    assert bill.count("nic") == cluster.nics
    assert bill.count("eps_port") + bill.count("ocs_port") == cluster.nics


@given(
    st.sampled_from(sorted(FABRICS)),
    st.dictionaries(st.sampled_from([*MixNet.keys(), "ratio", "panel", "x"]), VALUES, max_size=3),
)
@settings(deadline=None, max_examples=300)
def test_options_are_taken_or_refused_in_one_line(kind, options):
    fabric, refusal = attempt(kind, options)
    if fabric is None:
        assert "\n" not in refusal
        assert 0 < len(refusal) < 500
    else:
        assert fabric.kind == kind
        assert options.keys() <= fabric.parameters().keys()


@given(st.text(max_size=80))
@settings(deadline=None)
def test_any_file_is_read_or_refused_in_one_line(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("fabric") / "mine.toml"
    path.write_text(text, encoding="utf-8", newline="")
    fabric, refusal = attempt(path)
    assert fabric is not None or refusal
    assert "\n" not in refusal


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_pareto_front_is_what_nothing_beats(points):
    def beaten(point):
        return any(
            other[0] <= point[0] and other[1] >= point[1] and other != point for other in points
        )

    front = pareto_front(points)
    assert sorted(front) == [i for i, point in enumerate(points) if not beaten(point)]
    costs = [points[i][0] for i in front]
    assert costs == sorted(costs)
    assert np.all(np.diff([points[i][1] for i in front]) >= 0)
