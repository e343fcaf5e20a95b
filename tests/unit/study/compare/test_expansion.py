"""Plans of longer sequences: what a rule says of their GPUs, and their steps when simulated."""

import pytest

from lightloom.errors import PlanError
from lightloom.parallel import Plan
from lightloom.planner.expansion import expand
from lightloom.study.compare import ClusterOptions, PlanOptions, Scenario
from lightloom.study.compare.expansion import expanded_plan, expansion
from lightloom.study.compare.fills import Fills, Steps
from lightloom.study.compare.job import prepare
from lightloom.study.compare.memory import job_memory
from lightloom.study.compare.plan_search import PLAIN

K = 1024


def plans():
    for tp in (1, 2, 8):
        for ep in (1, 4, 8):
            for dp in (1, 3):
                yield Plan(tp * ep * dp * 2, tp=tp, ep=ep, dp=dp, pp=2)
                if ep > 1:
                    gpus = tp * ep * dp * 2
                    folded = {"expert_mode": "folded", "dp": tp * dp}
                    yield Plan(gpus, tp=tp, ep=ep, pp=2, **folded)


@pytest.mark.parametrize("plan", list(plans()), ids=str)
def test_no_rank_holds_more_than_the_longest_sequence(plan):
    longest, before = 24 * K, 0
    for seq in (2**power for power in range(12, 21)):
        rule = expand(seq, longest=longest, ep=plan.ep)
        try:
            grown = expanded_plan(plan, rule)
        except PlanError:
            pytest.fail(f"{rule}")
        assert grown.seq_len / grown.cp <= longest
        assert grown.dense_dp * grown.tp * grown.cp * grown.pp == grown.gpus
        assert (grown.tp, grown.pp, grown.ep, grown.etp) == (plan.tp, plan.pp, plan.ep, plan.etp)
        if rule.way == "horizontal":
            assert grown.gpus == grown.cp * plan.gpus
            assert grown.dense_dp == plan.dense_dp
        if rule.way == "vertical":
            # no more GPUs than a stage of whole sequences needs
            assert grown.gpus == max(plan.gpus, plan.gpus // plan.dense_dp * grown.cp) or (
                plan.dense_dp % grown.cp
            )
        assert grown.gpus >= before or rule.way == "vertical"
        before = grown.gpus


def test_estimated_steps_are_those_of_a_simulation():
    cluster = ClusterOptions(rate_gbps=400, gpu="h100")
    plan = PlanOptions(tp=2, pp=2, ep=8, micro_batches=4)
    base = Scenario(
        model="mixtral-8x7b", gpus=64, fabrics=("fat-tree",), cluster=cluster, plan=plan, seeds=1,
        compute_spread=0.0,
    )  # fmt: skip
    found = expansion(job_memory(base))
    for row in (found.rows[3], found.rows[-3]):
        grown = row.fitted.plan
        names = [*("tp", "pp", "ep", "etp", "cp", "dp", "seq_len", "micro_batches", "expert_mode")]
        given = PlanOptions(**{name: getattr(grown, name) for name in names})
        level = row.fitted.options.recompute
        made = prepare(
            base.model_copy(update={"gpus": grown.gpus, "plan": given, "recompute": level})
        )
        assert made.plan == grown
        step_s = Steps(Fills.of(made, made.plan.pp), lambda *_: True).step_time_s(PLAIN)
        # the skew of Mixtral's experts hides behind that of others where groups share servers
        assert row.step_time_s == pytest.approx(step_s, rel=0.1)
