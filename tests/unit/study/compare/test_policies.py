"""What each policy of switching circuits gains: which runs, which numbers, which sentence."""

import dataclasses
from types import SimpleNamespace

import pytest

from lightloom.fabric import MixNet, load_fabric
from lightloom.study.compare import compare
from lightloom.study.compare.policies import (
    policies_note,
    policy_results,
    switching_warning,
)
from lightloom.study.compare.results import PolicyResult
from lightloom.study.compare.variants import OtherPolicy, switching_variants

POLICIES = ["never", "always", "per-layer", "break-even", "oracle"]


def run(step_time_s, *, waited_s=0.0, reconfigurations=0, saved_s=0.0):
    use = SimpleNamespace(reconfigurations=reconfigurations, saved_s=saved_s)
    return SimpleNamespace(
        step_time_s=step_time_s, mean_s={"reconfiguration": waited_s}, circuits=use
    )


def results(**step_times_s):
    names = [name.replace("_", "-") for name in step_times_s]
    times = dict(zip(names, step_times_s.values(), strict=True))
    never = times["never"]
    return tuple(
        PolicyResult(name, time_s, never - time_s, 0.0, int(name != "never"), 0.0)
        for name, time_s in times.items()
    )


def keys(fabric, *, policies):
    return {variant.key: other for variant, other in switching_variants(fabric, policies).items()}


def test_every_other_policy_is_run_beside_the_own_one():
    found = keys(MixNet(), policies=True)
    assert list(found) == [
        "first=reuse", "link_up", "when=never", "when=always",
        "when=per-layer", "when=oracle",
    ]  # fmt: skip
    assert found["when=oracle"].when == "oracle"
    assert {fabric.name for fabric in found.values()} == {"mixnet"}
    assert list(keys(MixNet(), policies=False)) == [
        "first=reuse",
        "link_up",
        "when=never",
    ]


@pytest.mark.parametrize("policy", ["never", "oracle"])
def test_these_have_no_use_for_the_first_all_to_all(policy):
    found = keys(MixNet(when=policy), policies=True)
    names = [name for name in found if name != "link_up"]
    assert sorted(names) == sorted(f"when={p}" for p in POLICIES if p != policy)
    # circuits that stay have no links to bring up
    assert ("link_up" in found) == (policy != "never")


def test_fabrics_without_a_choice_have_none():
    assert keys(load_fabric("fat-tree"), policies=True) == {}
    assert keys(MixNet(allocator="static"), policies=True) == {}
    assert keys(MixNet(when="never"), policies=False) == {}


def test_numbers_of_a_policy():
    runs = {OtherPolicy(name): run(10.0) for name in POLICIES if name != "break-even"}
    own = run(9.0, waited_s=0.25, reconfigurations=4, saved_s=2.0)
    found = {result.when: result for result in policy_results(MixNet(), own, runs)}
    assert list(found) == POLICIES
    assert found["break-even"] == PolicyResult("break-even", 9.0, 1.0, 0.25, 4, 0.5)
    assert found["never"] == PolicyResult("never", 10.0, 0.0, 0.0, 0, 0.0)
    del runs[OtherPolicy("oracle")]
    assert policy_results(MixNet(), own, runs) == ()
    assert policy_results(load_fabric("fat-tree"), own, {}) == ()


def test_the_note_says_when_a_static_circulant_is_as_good():
    close = results(never=10.0, always=10.2, per_layer=10.3, break_even=9.99, oracle=9.98)
    assert policies_note(close) == (
        "circuits that are never switched are as good here: the best policy, break-even, gains "
        "0.10%, the oracle 0.20%"
    )
    kept = tuple(dataclasses.replace(result, reconfigurations=0) for result in close)
    assert policies_note(kept) == (
        "circuits stay as they are here: no reconfiguration saves more than it costs"
    )
    far = results(never=10.0, always=9.5, per_layer=9.8, break_even=9.4, oracle=9.0)
    assert policies_note(far) == (
        "switching by break-even gains 6.00% over circuits that are never switched, the "
        "oracle 10.00%"
    )


def waiting(share):
    """A step of which this share waits for circuits."""
    return SimpleNamespace(
        step_time_s=4.0, critical_path_s={"ep": 4 * (1 - share), "reconfiguration": 4 * share}
    )


def test_a_step_that_mostly_waits_for_circuits_is_warned_of():
    always = MixNet(when="always")
    assert switching_warning(always, waiting(0.75)) == (
        "mixnet waits for circuits in 75% of a step: switch only where it pays (when = "
        "break-even) or say how long your links need to come up, here 5.67 s (link_up_s)"
    )
    assert switching_warning(always.replace(link_up_s=0.0), waiting(0.75)) == (
        "mixnet waits for circuits in 75% of a step: switch only where it pays (when = break-even)"
    )
    assert switching_warning(MixNet(), waiting(0.75)) == (
        "mixnet waits for circuits in 75% of a step: say how long your links need to come up, here "
        "5.67 s (link_up_s)"
    )
    assert switching_warning(always, waiting(0.5)) is None
    assert switching_warning(load_fabric("fat-tree"), waiting(0.0)) is None


def test_a_comparison_warns_of_waiting(scenario):
    options = {"mixnet": {"when": "always", "split": False}}
    job = {"seeds": 1, "compute_spread": 0.0, "policies": False, "imbalances": False}
    found = compare(scenario(fabric_options=options, **job))
    (warning,) = found.warnings
    assert warning.startswith("mixnet waits for circuits in ")
    assert not compare(scenario(**job)).warnings


def test_a_comparison_has_them(scenario):
    result = compare(scenario(seeds=1, fabrics=("mixnet",), compute_spread=0.0)).results[0]
    assert [policy.when for policy in result.policies] == POLICIES
    by_name = {policy.when: policy for policy in result.policies}
    assert by_name["break-even"].step_time_s == result.step_time_s
    for name in POLICIES:
        if name != "break-even":
            assert by_name[name].step_time_s == result.variants_s[f"when={name}"]
    assert result.to_json()["policies"][0] == dataclasses.asdict(by_name["never"])
    assert policies_note(result.policies) in result.notes


@pytest.mark.parametrize("demand", ["auxiliary", "pair", "volatile"])
def test_a_policy_that_changes_nothing_is_never(scenario, demand):
    """Nothing is gained by switching where nothing was switched, and ``never`` has no handicap."""
    job = {"seeds": 1, "fabrics": ("mixnet",), "compute_spread": 0.0, "imbalances": False}
    options = {"mixnet": {"link_up_s": 0.0, "fixed_s": 0.01}}
    source = {"source": demand}
    for delays in ({}, options):
        result = compare(scenario(**job, demand=source, fabric_options=delays)).results[0]
        never = result.policies[POLICIES.index("never")]
        assert never.reconfigurations == 0
        for policy in result.policies:
            if not policy.reconfigurations:
                assert policy.gain_s == 0
                if policy.when != "oracle":
                    assert policy.step_time_s == never.step_time_s
        if not any(policy.reconfigurations for policy in result.policies):
            assert "switching" not in policies_note(result.policies)


def test_they_may_be_left_out(scenario):
    without = compare(scenario(seeds=1, fabrics=("mixnet",), policies=False)).results[0]
    assert without.policies == ()
    tried = [name for name in without.variants_s if not name.startswith("split=")]
    assert sorted(tried) == ["first=reuse", "link_up", "when=never"]
    assert any("(first=reuse)" in note for note in without.notes)


def test_exact_circuits_are_asked_for_in_a_comparison(scenario):
    options = {"mixnet": {"allocator": "exact"}}
    given = scenario(seeds=1, fabrics=("mixnet",), policies=False, compute_spread=0.0)
    exact_scenario = given.model_copy(update={"fabric_options": options})
    exact, best = (compare(each).results[0] for each in (exact_scenario, given))
    assert exact.parameters["allocator"] == "exact"
    assert exact.step_time_s == pytest.approx(best.step_time_s, rel=0.01)
    assert MixNet(allocator="exact").reconfiguration().allocator is not None
    assert MixNet().reconfiguration().allocator is None
