"""``lightloom advise``: what to buy for a training job, and what would change the answer."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from lightloom.cli.compare import Settings, scenario_from_options
from lightloom.cli.options import Command, CommandCall, Panel, option, put
from lightloom.cli.outputs import Outputs, checked_outputs, text_outputs
from lightloom.cli.terminal import command_line, remarks_console, results_console, terminal
from lightloom.errors import InputError, echo
from lightloom.inputs.amounts import Amount, read_amount
from lightloom.inputs.fields import split_list
from lightloom.inputs.strict import Name, Strict, Switch, Whole, check
from lightloom.study.compare.scenario import ClusterOptions, Scenario
from lightloom.study.purchase.options import Goal, PurchaseOptions
from lightloom.units import parse_quantity

EXAMPLES = (
    "lightloom advise mixtral-8x22b --gpus 512..4096 --gpu h100 --budget '60 M$'",
    "lightloom advise config.json --gpus 1024,2048 --deadline '15T tokens in 60 days'",
    "lightloom advise qwen3-30b-a3b --gpus 64..256 --goal power --fabrics fat-tree,mixnet",
    "lightloom advise mixtral-8x22b --gpus 1024 --gpu h200 --rate 400,800 --html advice.html",
)
NOTES = (
    "N..M are N, twice as many and so on, and M. Candidates: GPUs x rate x plan x fabric x design x"
    " all-to-all. How it is found: docs/how-to/choose-what-to-buy.md."
)
#: rates of NICs that are tried where none is given, Gb/s
RATES = "400,800"
#: numbers of GPUs of a range, at most
MOST_SIZES = 30
_DEADLINE = re.compile(r"(?P<tokens>.{1,40}?)\s*tokens\s+in\s+(?P<time>.{1,40})", re.IGNORECASE)


class PurchaseTexts(Strict):
    """What a call says of candidates and limits, as it is typed."""

    gpus: Name = Field(description=str(Scenario.model_fields["gpus"].description))
    rate: Name = Field(RATES, description=str(ClusterOptions.model_fields["rate_gbps"].description))
    budget: Amount | None = Field(
        None, description="US dollars for network, servers and GPUs, such as '30 M$'."
    )
    deadline: Name | None = Field(
        None, description="Tokens and the time to train them in, such as '15T tokens in 60 days'."
    )
    goal: Goal = Field(
        "tokens-per-dollar",
        description=str(PurchaseOptions.model_fields["goal"].description),
    )
    plans: Annotated[Whole, Field(le=20)] = Field(
        2, description=str(PurchaseOptions.model_fields["plans"].description)
    )
    uncertainty: Switch = Field(
        True, description=str(PurchaseOptions.model_fields["uncertainty"].description)
    )


def command() -> Command:
    """Describe the command."""
    fabrics = option(PurchaseOptions, "fabrics", common=True)
    return Command(
        panels=(
            Panel(
                "Job (the published plan and others; --set plan.KEY=VALUE for one of your own)",
                (
                    option(Scenario, "model", "MODEL", common=True),
                    replace(_text("gpus"), metavar="N..M|N,..."),
                    replace(_text("rate"), metavar="Gb/s,..."),
                    option(Scenario, "cluster.gpu", common=True),
                    option(
                        Scenario, "demand.source", "--demand", common=True, metavar="NAME|X|PATH"
                    ),
                    fabrics,
                    option(Settings, "set", common=True, repeats=True, metavar="KEY=VALUE"),
                    option(Scenario, "prices"),
                    option(Scenario, "power"),
                    option(Scenario, "seed"),
                ),
            ),
            Panel(
                "Goal and limits",
                (
                    _text("goal"),
                    replace(_text("budget"), metavar="USD"),
                    replace(_text("deadline"), metavar="'N tokens in TIME'"),
                    _text("plans"),
                    _text("uncertainty"),
                ),
            ),
            Panel(
                "Output",
                (
                    option(Outputs, "html", common=True, below="output"),
                    option(Outputs, "open", below="output"),
                    *text_outputs(),
                ),
            ),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
        needed=("model", "texts.gpus"),
    )


def _text(name: str) -> Any:
    return option(PurchaseTexts, name, common=True, below="texts")


def numbers_of_gpus(text: str) -> tuple[int, ...]:
    """The numbers of GPUs of ``N..M`` (N, 2 N and so on, and M) or of a list.

    Raises
    ------
    InputError
        If it is neither.

    Examples
    --------
    >>> numbers_of_gpus("512..3000"), numbers_of_gpus("64,1,024")
    ((512, 1024, 2048, 3000), (64, 1024))
    """
    first, dots, last = text.partition("..")
    parts = [first, last] if dots else split_list(text)
    numbers = [int(part.replace(",", "")) for part in parts if part.replace(",", "").isdecimal()]
    if len(numbers) != len(parts) or not numbers or min(numbers) < 1 or len(text) > 400:
        raise InputError(
            f"--gpus {echo(text, quoted=False)}: expected a number of GPUs, a list such as 512,1024"
            " or a range such as 512..4096"
        )
    if not dots:
        return tuple(dict.fromkeys(numbers))
    low, high = numbers
    if high < low:
        raise InputError(f"--gpus {text}: a range goes up; write {high}..{low}")
    sizes = [low * 2**power for power in range(MOST_SIZES) if low * 2**power < high]
    return (*sizes, high)


def deadline_of(text: str) -> tuple[float, float]:
    """Tokens, and the time to train them in, s.

    Raises
    ------
    InputError
        If it is no number of tokens in a time.

    Examples
    --------
    >>> deadline_of("15T tokens in 60 days")
    (15000000000000.0, 5184000.0)
    """
    called = f"--deadline {echo(text, quoted=False)}"
    stated = _DEADLINE.fullmatch(text.strip())
    if stated is None:
        raise InputError(f"{called}: expected tokens in a time, such as '15T tokens in 60 days'")
    try:
        tokens = float(str(read_amount(stated["tokens"])))
        seconds = parse_quantity(stated["time"], "second", "time")
    except (ValueError, InputError) as error:
        raise InputError(f"{called}: {error}") from None
    if not 0 < tokens <= 1e18 or not 0 < seconds <= 1e12:
        raise InputError(f"{called}: expected tokens and a time above 0")
    if stated["time"].strip().replace(".", "", 1).isdecimal():
        raise InputError(f"{called}: a time needs its unit, such as '60 days'")
    return tokens, seconds


def options_of(call: CommandCall) -> PurchaseOptions:
    """The candidates, goal and limits of a call, which its tables lack from then on.

    Raises
    ------
    InputError
        If one cannot be used.
    """
    texts = call.take(PurchaseTexts, "texts")
    tokens, deadline_s = (None, None) if texts.deadline is None else deadline_of(texts.deadline)
    try:
        rates = tuple(
            parse_quantity(part, "gigabit / second", "--rate") for part in split_list(texts.rate)
        )
    except InputError as error:
        raise InputError(f"--rate {echo(texts.rate, quoted=False)}: {error}") from None
    values: dict[str, Any] = {
        "gpus": numbers_of_gpus(texts.gpus),
        "rates_gbps": tuple(dict.fromkeys(rates)),
        "goal": texts.goal,
        "budget_usd": texts.budget,
        "tokens": tokens,
        "deadline_s": deadline_s,
        "plans": texts.plans,
        "uncertainty": texts.uncertainty,
    }
    if "fabrics" in call.tables:
        from lightloom.fabric.read import fabric_names

        values["fabrics"] = fabric_names(call.tables["fabrics"])
    return check(PurchaseOptions, values, "", call=lambda key: f"--{key.partition('_')[0]}")


def _run(call: CommandCall) -> None:
    from lightloom.output.progress import TerminalMonitor
    from lightloom.report.page_purchase import write_purchase_page
    from lightloom.report.purchase_table import print_purchase
    from lightloom.study.purchase import advise_purchase

    outputs = checked_outputs(call).with_page()
    if not call.has("texts.gpus"):
        raise InputError("--gpus is missing; add it, such as --gpus 512..4096")
    options = options_of(call)
    put(call.tables, "gpus", options.gpus[0])
    put(call.tables, "cluster.rate_gbps", options.rates_gbps[0])
    call.tables["fabrics"] = options.fabrics
    scenario = scenario_from_options(call)
    remarks, started = remarks_console(), time.monotonic()
    with TerminalMonitor(remarks, lambda _: None) as monitor:
        advice = advise_purchase(scenario, options, monitor=monitor)
    more = "" if terminal().verbose or outputs.html else "; --verbose or --html say more"
    remarks.print(f"found in {time.monotonic() - started:.1f} s{more}", style="dim")
    if not outputs.on_stdout:
        print_purchase(advice, results_console(), details=terminal().verbose)
    outputs.write_all(
        advice.rows,
        lambda: advice.to_json() | {"command": command_line()},
        lambda page: write_purchase_page(advice, page, command_line()),
    )
    outputs.show_page()
