"""``lightloom goodput`` and ``lightloom map``: what they print, write and refuse."""

import csv
import json
import re
import xml.etree.ElementTree as ET

import pytest

JOB = "mixtral-8x7b --gpus 64 --set plan.tp=4 --set plan.pp=2 --set plan.ep=8"
JOB += " --set plan.micro_batches=2"
GOODPUT = f"goodput {JOB} --fabrics fat-tree,mixnet --runs 10"
MAP = f"map {JOB} --rates 400 --degrees 6 --no-variants"


def tables_are_narrow(text):
    return all(len(line) <= 80 for line in text.splitlines() if re.search("─|  ", line))


def test_goodput_prints_tables_and_the_verdict_last(lightloom, tmp_path):
    page, table, results = (tmp_path / name for name in ("g.html", "g.csv", "g.json"))
    found = lightloom(f"{GOODPUT} --verbose --html {page} --csv {table} --json {results}")
    assert found.status == 0, found.err
    for title in (
        *("Useful time: 10 runs of 30 days", "Where the time goes", "What failures cost"),
        *("Spare servers", "Checkpoints more and less often", "Published runs"),
    ):
        assert title in found.out
    assert tables_are_narrow(found.out)
    assert re.search(r"useful steps a day.*per 10\^12", found.out.splitlines()[-1])
    rows = list(csv.DictReader(table.read_text().splitlines()))
    content = json.loads(results.read_text())
    assert [row["fabric"] for row in rows] == ["fat-tree", "mixnet"]
    assert float(rows[0]["useful_share"]) == pytest.approx(content["results"][0]["useful_share"])
    assert content["inputs"]["rates_per_year"]["part"]["gpu"]["source"].startswith("Llama team")
    text = page.read_text()
    assert "What is not useful of the time" in text
    assert "Published runs" in text
    assert "http-equiv" in text


def test_goodput_takes_no_rate_and_times_with_units(lightloom):
    found = lightloom(f"{GOODPUT} --fabrics fat-tree --detection 1min --repair 12h --json -")
    content = json.loads(found.out)
    assert content["inputs"]["detection_s"] == 60
    assert content["inputs"]["repair_s"] == 43_200
    assert content["inputs"]["scenario"]["cluster"]["rate_gbps"] == 400


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("goodput --gpus 64", "no job is given: expected a model"),
        (f"{GOODPUT} --survives gpu", "survives gpu: expected one of nic, link, tor, ocs"),
        (f"{GOODPUT} --detection 60", "--detection 60: a time needs its unit"),
        (f"{GOODPUT} --days 0", "--days 0.0: expected more than 0"),
        (f"{GOODPUT} --spares -1", "--spares -1: expected"),
        (f"{GOODPUT} --html g.pdf", "--html g.pdf: expected a name that ends in .html or .htm"),
        (f"{MAP} --degrees 8", "degree 8: a server has 8 NICs"),
        (f"{MAP} --fabrics mixnet", "fabrics: name one that mixnet is held against"),
        (f"{MAP} --rates fast", "--rates"),
        (f"{MAP} --svg map.png", "--svg map.png: expected a name that ends in .svg"),
    ],
)
def test_what_cannot_be_is_one_line(refused, command, message):
    assert message in refused(command)


def test_map_prints_borders_and_draws_them(lightloom, tmp_path):
    drawing, table, results = (tmp_path / name for name in ("m.svg", "m.csv", "m.json"))
    found = lightloom(f"{MAP} --svg {drawing} --csv {table} --json {results}")
    assert found.status == 0, found.err
    for title in ("Delays, bring-up included", "Switches of today, at 400 Gb/s and degree 6"):
        assert title in found.out
    assert "What moves the borders" not in found.out
    assert tables_are_narrow(found.out)
    assert re.search(r"\d+ simulations; interpolated steps were off", found.out.splitlines()[-1])
    root = ET.fromstring(drawing.read_text())
    assert root.tag.endswith("svg")
    rows = list(csv.DictReader(table.read_text().splitlines()))
    content = json.loads(results.read_text())
    assert sum(row["is_simulated"].lower() == "true" for row in rows) == len(
        content["curves"][0]["delays_s"]
    )
    assert {product["name"] for product in content["products"]} >= {"piezo", "rotornet"}
    assert content["bring_ups"][0] == {"name": "nic", "title": "NIC of today", "delay_s": 5.67}
