"""Failures in a comparison: which are simulated, what they add, what is refused."""

import pytest

import lightloom
from lightloom.errors import InputError
from lightloom.study.compare.failed_parts import backup_circuits, failures_note, parse_parts
from lightloom.workload.backup_gpu import BackupTraffic


def test_parts_are_named_by_server_or_by_their_index_among_all():
    given = ["nic:3/0", "nic:13", "link:3/1", "eps:0/1", "gpu:17", "gpu:1/2", "server:4"]
    found = [(text, str(part)) for text, part in parse_parts(given, 6, 8, 16, 2)]
    assert found == [
        ("nic:3/0", "nic:3/0"),
        ("nic:13", "nic:2/1"),
        ("link:3/1", "link:3/1"),
        ("eps:0/1", "eps:0/1"),
        ("gpu:17", "gpu:2/1"),
        ("gpu:1/2", "gpu:1/2"),
        ("server:4", "server:4"),
    ]


@pytest.mark.parametrize("text", ["port:ocs/3", "switch:ocs"])
def test_what_is_not_simulated_is_refused(text):
    kind = text.partition(":")[0]
    with pytest.raises(InputError, match=rf"^fail {text}: the failure of a {kind} is not simulat"):
        parse_parts([text], 6, 8, 16, 2)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("gpu:9999", "with 8 of these each; the last is gpu:15/7"),
        ("gpu:128", "the last is gpu:15/7"),
        ("gpu:3/8", "the last is gpu:15/7"),
        ("nic:96", "with 6 of these each; the last is nic:15/5"),
        ("link:0/6", "the last is link:15/5"),
        ("eps:0/2", "with 2 of these each; the last is eps:15/1"),
        ("server:16", "fail server:16: the job has 16 servers; the last is server:15"),
    ],
)
def test_a_part_that_the_job_lacks_is_named_as_given(text, last):
    with pytest.raises(InputError, match=last) as caught:
        parse_parts([text], 6, 8, 16, 2)
    assert str(caught.value).startswith(f"fail {text}: the job has 16 servers")


@pytest.mark.parametrize("fabrics", [["fat-tree"], ["fat-tree", "rail", "topoopt"]])
def test_failures_that_no_fabric_is_simulated_with_are_refused(fabrics):
    with pytest.raises(InputError, match=r"^fail nic:0: a failure is simulated on a fabric w"):
        lightloom.compare(
            "mixtral-8x7b", gpus=128, rate=400, fabrics=fabrics, fail=["nic:0"], seeds=1
        )


def test_what_failures_add_in_words():
    variants = {"first=reuse": 9.0, "failed=nic:3/0": 10.1, "failed=server:4": 12.0}
    assert failures_note(10.0, variants) == (
        "failures: 10 s with all parts, without nic:3/0 10.1 s (+1.0%), without server:4 12 s "
        "(+20.0%)"
    )
    assert failures_note(10.0, {"first=reuse": 9.0}) is None


def compared(**options):
    return lightloom.compare(
        "mixtral-8x7b",
        gpus=64,
        rate=400,
        seeds=1,
        policies=False,
        imbalances=False,
        compute_spread=0.0,
        plan={"tp": 4, "pp": 2, "ep": 8, "micro_batches": 2},
        fabric_options={"mixnet": {"link_up_delay_s": 0.0}},
        **options,
    )


def test_a_server_costs_more_than_a_nic():
    found = compared(fabrics=["fat-tree", "mixnet"], fail=["nic:0/0", "gpu:8", "server:1"])
    tree, mixnet = found.results
    assert not [name for name in tree.variants_s if name.startswith("failed")]
    assert "failures: not simulated, as no circuit replaces what failed" in tree.notes
    base = mixnet.sample_step_times_s[0]
    nic, server = (mixnet.variants_s[f"failed={part}"] for part in ("nic:0/0", "server:1"))
    (gpu,) = (value for name, value in mixnet.variants_s.items() if "gpu:8 (backup o" in name)
    assert base <= nic * 1.001
    assert nic < gpu < 1.3 * base
    assert nic < server
    assert [note for note in mixnet.notes if note.startswith("failures: ")]


def test_circuits_of_a_backup_balance_it_against_all_to_alls():
    def circuits(crossing, all_to_all, eps_gbps=2):
        return backup_circuits(BackupTraffic(crossing, all_to_all), 6, 10**9, eps_gbps * 10**9)

    # all for the backup but one, where there are no all-to-alls
    assert circuits(1000, 0) == 5
    # the EPS, where it is as fast as the circuits, or where all-to-alls need all of them
    assert circuits(1000, 0, eps_gbps=5) == 0
    assert circuits(1, 1000) == 0
    # 1000 / c + 1000 / (6 - c + 2) is least at c = 4
    assert circuits(1000, 1000) == 4


@pytest.mark.parametrize("part", ["server:99", "gpu:64"])
def test_a_part_that_is_not_there_is_refused_before_anything_runs(part):
    with pytest.raises(InputError) as refusal:
        compared(fabrics=["mixnet"], fail=[part])
    assert "\n" not in str(refusal.value)
