"""``--set``: options of fabrics and keys of studies, one line for whatever is wrong."""

import json

import pytest

from lightloom.fabric import FABRICS

JOB = (
    "compare mixtral-8x7b --gpus 128 --rate 400 --plan published --micro-batches 4 --seeds 1 "
    "--no-policies"
)


def scenario(lightloom, *options):
    done = lightloom(f"{JOB} --json -", *options)
    assert done.status == 0, done.err
    return json.loads(done.out)


def test_values_are_parsed_by_the_kind_of_their_field(lightloom):
    content = scenario(
        lightloom,
        "--fabrics oversub,mixnet --set mixnet.ports=4 --set mixnet.split=off",
        "--set mixnet.link_up_s=5ms --set mixnet.region_servers=4",
        "--set oversub.ratio=2 --set counting.tiers=2 --set counting.fiber_length_m=20m",
        "--set cluster.link_delay_s=2us --set plan.pp_layout=8,8,8,8 --set all.all_to_all=flat",
    )
    inputs = content["inputs"]["scenario"]
    assert inputs["fabric_options"] == {
        "mixnet": {
            "ports": 4, "split": False, "link_up_s": "5ms", "region_servers": 4,
        },
        "oversub": {"ratio": 2.0},
        "all": {"all_to_all": "flat"},
    }  # fmt: skip
    assert inputs["counting"] == {"tiers": 2, "fiber_length_m": "20m"}
    assert inputs["cluster"]["link_delay_s"] == pytest.approx(2e-6)
    assert inputs["plan"]["pp_layout"] == [8, 8, 8, 8]
    mixnet = next(r for r in content["results"] if r["fabric"] == "mixnet")
    assert mixnet["parameters"]["ports"] == 4
    assert mixnet["parameters"]["link_up_s"] == pytest.approx(0.005)


def test_set_is_the_same_as_the_option(lightloom):
    by_set = scenario(lightloom, "--fabrics mixnet --set mixnet.allocator=greedy")
    by_option = scenario(lightloom, "--fabrics mixnet --allocator greedy")
    assert by_set["inputs"]["scenario"]["fabric_options"] == {"mixnet": {"allocator": "greedy"}}
    assert by_set["inputs"]["scenario"] == by_option["inputs"]["scenario"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--set mixnet", "--set mixnet: expected KEY=VALUE, such as mixnet.ports=4"),
        ("--set =4", "--set =4: expected KEY=VALUE, such as mixnet.ports=4"),
        ("--set mixnet..ports=4",
         "--set mixnet..ports=4: expected KEY=VALUE, such as mixnet.ports=4"),
        ("--set mixnett.ports=4", "--set mixnett.ports=4: unknown table 'mixnett'; did you mean "
         "'mixnet'?"),
        ("--set x.ports=4", f"--set x.ports=4: unknown table 'x'; known: {', '.join(FABRICS)}, "
         "all, cluster, compute, memory, plan, demand, counting, packets, traffic, program"),
        ("--set network.routing=adaptive",
         "--set network.routing=adaptive: unknown table 'network'; "
         "'lightloom packets' has it: here the fabric is the network, of which fat-tree.ecmp says "
         "what hashing reaches; packets.transport says which flows are hashed (roce) or sprayed "
         "(ndp)"),
        ("--set mixnet.prots=4", "--set mixnet.prots=4: mixnet has no option 'prots'; did you mean "
         "'ports'?"),
        ("--set plan.x=4", "--set plan.x=4: plan has no option 'x'; known: source, tp, pp, dp, ep, "
         "etp, cp, context_parallel, vpp, micro_batches, micro_batch_size, global_batch_size, "
         "seq_len, zero1, expert_mode, pp_layout, mtp, schedule, overlap_all_to_all, "
         "overlap_chunks, strategy, strategy_chunks, overlap_shared_experts, overlap_tp, "
         "communication_sms, overlap_gradients, overlap_parameters, overlap_pipeline"),
        ("--set mixnet=4", "--set mixnet=4: expected TABLE.KEY=VALUE, such as mixnet.ports=4"),
        ("--set mixnet.ports=4 --set mixnet.ports=6",
         "--set mixnet.ports is given twice; leave one of them out"),
        ("--allocator paper --set mixnet.allocator=greedy",
         "--set mixnet.allocator and --allocator are both given; leave one of them out"),
        ("--set cluster.rate_gbps=100",
         "--set cluster.rate_gbps and --rate are both given; leave one of them out"),
        ("--set mixnet.ports=four", "mixnet: ports = four: expected a whole number"),
        ("--set mixnet.link_up_s=5Gbps", "mixnet: link_up_s = 5Gbps: cannot read '5Gbps' "
         "as a time such as '25 ms', or 'measured'"),
        ("--set mixnet.split=maybe", "mixnet: split = maybe: expected on or off"),
        ("--set plan.tp=two", "plan.tp = two: expected a whole number"),
        ("--set cluster.nics_per_server=0",
         "cluster.nics_per_server = 0: expected at least 1"),
        ("--fabrics rail --set mixnet.ports=4", "--set mixnet.ports is for mixnet, which is not "
         "compared; add mixnet to --fabrics (a custom fabric sets ports in its TOML file)"),
    ],
)  # fmt: skip
def test_exact_line(refused, options, expected):
    line = refused(JOB, options)
    assert line.startswith(expected) if expected.endswith(": ") else line == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--set queue.size_bytes", "--set queue.size_bytes: expected KEY=VALUE, such as "
         "queue.size_bytes=1MB"),
        ("--queue 1MB --set queue.size_bytes=2MB",
         "--set queue.size_bytes and --queue are both given; leave one of them out"),
        ("--initial-window 4 --set transport.initial_window=8", "--set transport.initial_window "
         "and --initial-window are both given; leave one of them out"),
    ],
)  # fmt: skip
def test_exact_line_of_packets(refused, options, expected):
    run = "packets --hosts 8 --rate 100 --transport dctcp --pattern permutation --bytes 1kB"
    assert refused(run, options) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--set rho", "--set rho: expected KEY=VALUE, such as rho=0.9"),
        ("--set rho=much", "--set rho=much: expected a number"),
        ("--set rho=0.1 --set rho=0.2", "--set rho is given twice; leave one of them out"),
    ],
)
def test_exact_line_of_demand(refused, options, expected):
    assert refused("demand pair", options) == expected
