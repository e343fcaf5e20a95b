"""Numbers, names and options as people write them: read, or answered with the word to use."""

import os

import numpy as np
import pytest

from lightloom.cli import other_names
from lightloom.cli.commands import COMMANDS, described

JOB = "compare mixtral-8x7b --gpus 128 --rate 400"


@pytest.mark.parametrize("rate", ["400G", "400GbE", "0.4T", "400Gbps"])
def test_numbers_as_people_write_them(lightloom, rate):
    shown = lightloom(f"fabrics --gpus 1,024 --rate {rate}")
    assert (shown.status, shown.err) == (0, "")
    assert "Network cost for 1,024 GPUs at 400 Gb/s" in shown.out


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("rail-optimized", "did you mean 'rail'?"),
        ("Rail_Optimised", "did you mean 'rail'?"),
        ("FatTree", "did you mean 'fat-tree'?"),
        ("fat_tree", "did you mean 'fat-tree'?"),
        ("oversubscribed", "did you mean 'oversub'?"),
        ("MixNet", "did you mean 'mixnet'?"),
        ("Clos", "that is 'fat-tree' here"),
        ("leaf_spine", "that is 'fat-tree' here"),
        ("ocs", "that is 'mixnet' here"),
    ],
)
def test_what_others_call_a_fabric(refused, name, meant):
    for line in (refused(f"{JOB} --fabrics {name}"), refused(f"fabrics {name}")):
        assert line.startswith(f"unknown fabric '{name}'; {meant}; known: fat-tree, ")


def test_all_stands_for_every_fabric(refused):
    # what is wrong comes after the names: all of them are known, and mixnet's option has a reader
    line = refused(f"{JOB} --fabrics all --set mixnet.ports=4 --prices no.toml")
    assert line == "no.toml: no such file"
    line = refused(f"{JOB} --fabrics all,mixnet")
    assert line.startswith("two fabrics are called 'mixnet'")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mistralai/Mixtral-8x7B-v0.1", "but the catalog has this model: 'mixtral-8x7b'"),
        ("https://huggingface.co/qwen/Qwen3-30B-A3B", "has this model: 'qwen3-30b-a3b'"),
        ("https://huggingface.co/deepseek-ai/DeepSeek-V3/blob/main/config.json",
         "has this model: 'deepseek-v3'"),
        ("hf://openai/gpt-oss-20b", "has this model: 'gpt-oss-20b'"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "the catalog has 'mixtral-8x7b'; if it is a model "
         "at Hugging Face, download https://huggingface.co/mistralai/Mixtral-8x7B-Instruct-v0.1/"
         "resolve/main/config.json and give its path"),
        ("some-one/else", "if it is a model at Hugging Face, download https://huggingface.co/"
         "some-one/else/resolve/main/config.json and give its path"),
        ("https://example.com/config.json", "download it, and give the path of the file"),
    ],
)  # fmt: skip
def test_a_model_that_is_elsewhere_says_what_to_download(refused, tmp_path, name, message):
    for line in (refused(f"compare {name} --gpus 128 --rate 400"), refused(f"models {name}")):
        assert line.startswith(f"{name}: no such file")
        assert line.endswith(message)
    if "://" not in name or "huggingface" in name:
        (tmp_path / "study.toml").write_text(
            f'model = "{name}"\ngpus = 128\n[cluster]\nrate_gbps = 400\n'
        )
        assert refused(f"run {tmp_path / 'study.toml'}").endswith(message)


def test_the_degree_of_papers_is_an_option_as_well(lightloom, tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.ones((4, 4), np.uint64))
    command = f"schedule {path} --reconfiguration-delay 1ms --no-systems --methods greedy"
    by_alias = lightloom(f"{command} --degree 2").out
    assert "Circuits: 2 ports of 400 Gb/s" in by_alias
    assert "--degree" not in lightloom("schedule --help-all").out


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("degree=4", "'ports'"),
        ("nic_gbps=400", "'rate_gbps'"),
        ("reconfigure=never", "'when'"),
        ("reconfiguration_delay_s=1ms", "'fixed_s'"),
        ("chunk_latency_s=1us", "'relay_delay_s'"),
        ("link_up_delay_s=0", "'link_up_s'"),
        ("control_delay_s=0", "'control_s'"),
    ],
)
def test_what_others_call_a_key(refused, name, called):
    line = refused(f"{JOB} --set mixnet.{name}")
    assert line.endswith(f"has no option '{name.partition('=')[0]}'; did you mean {called}?")


@pytest.mark.parametrize("name", ["configs/x.json", "./some/folder", "a/b/c", "/no/folder"])
def test_a_path_stays_a_path(refused, name):
    assert refused(f"models {name}").endswith("no such file")


def test_addresses_keep_their_slashes(refused):
    line = refused("run https://example.com/study.toml")
    assert line == (
        "https://example.com/study.toml: no such file; download it, and give the path of the file"
    )


def test_a_pipe_says_what_stands_for_standard_input(refused, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    line = refused(f"run {tmp_path / 'pipe'}")
    assert line.endswith("pipe: expected a file, got a pipe; '-' stands for standard input")


@pytest.mark.parametrize(
    ("option", "ours"),
    [
        ("--tensor-parallel", "--tp"),
        ("--tensor-model-parallel-size", "--tp"),
        ("--tensor_model_parallel_size", "--tp"),
        ("--pipeline-parallel", "--pp"),
        ("--expert-model-parallel-size=8", "--ep"),
        ("--mbs", "--micro-batch-size"),
        ("--seq-length", "--seq-len"),
        ("--use-distributed-optimizer", "--zero1"),
        ("--world-size", "--gpus"),
        ("--bandwidth", "--rate"),
        ("--skew", "--demand"),
    ],
)
def test_what_others_call_an_option(refused, option, ours):
    name = option.partition("=")[0]
    line = refused(f"{JOB} {option} 2")
    assert line == f"no option {name}; here it is {ours}; see lightloom compare --help"


def test_other_names_are_of_options_that_there_are():
    flags = {
        flag
        for name in COMMANDS
        for panel in described(name).panels
        for option in panel.options
        for flag in option.flags
    }
    assert set(other_names._OTHERS) <= flags
    assert sum(len(others.split()) for others in other_names._OTHERS.values()) == len(
        other_names._OURS
    )


@pytest.mark.parametrize("words", ["help compare", "help trace record", "help", "help control"])
def test_help_is_a_word_as_well(lightloom, words):
    shown = lightloom(words)
    assert shown.status == 0
    assert shown.out == lightloom(f"{words.removeprefix('help')} --help").out


def test_the_version_in_short(lightloom):
    assert lightloom("-V").out == lightloom("--version").out


def test_help_shows_what_a_comparison_needs(lightloom):
    usage = lightloom("compare --help").out.splitlines()[0]
    assert usage == "Usage: lightloom compare MODEL --gpus N,... --rate Gb/s,... [OPTIONS]"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--rate 200", "--rate is given 2 times; write --rate 400,200"),
        ("--gpus 256 --gpus=512", "--gpus is given 3 times; write --gpus 128,256,512"),
        ("--gpu a100 --gpu h100", "--gpu is given 2 times; write --gpu a100,h100"),
    ],
)
def test_a_list_given_twice(refused, options, message):
    assert refused(f"{JOB} {options}") == message


@pytest.mark.parametrize(
    ("output", "ending"),
    [
        ("--html x.pdf", ".html or .htm"),
        ("--html x.json", ".html or .htm"),
        ("--timeline x.txt", ".json or .json.gz or .pftrace"),
        ("--timeline x.HTML", ".json or .json.gz or .pftrace"),
        ("--json x.csv", ".json or .json.gz"),
        ("--csv x.xlsx", ".csv"),
        ("--parquet x.csv", ".parquet"),
    ],
)
def test_a_name_of_another_kind_of_file(refused, output, ending):
    assert refused(f"{JOB} {output}") == f"{output}: expected a name that ends in {ending}"


def test_servers_are_filled_by_every_command(refused):
    expected = "63 GPUs do not fill servers of 8; use 64 GPUs"
    assert refused("fabrics --gpus 63") == expected
    assert refused("compare mixtral-8x7b --gpus 63 --rate 400") == expected


def test_options_are_named_as_they_are_typed(refused):
    line = refused("packets --hosts 16 --rate 100 --pattern incast --fan-in 16 --bytes 1MB "
                   "--transport dctcp")  # fmt: skip
    assert line == "--fan-in 16: expected 1 to 15, the hosts other than host 0"


def test_code_on_the_command_line_is_not_recorded(refused):
    line = refused("trace record --world-size 2 -- python3 -u -c print(1)")
    assert line == "-c: code on the command line is not recorded; write it to a script"


def test_a_label_has_no_comma(refused, tmp_path):
    (tmp_path / "f.toml").write_text('kind = "mixnet"\nlabel = "a,b"\n')
    line = refused(f"{JOB} --fabrics {tmp_path / 'f.toml'}")
    assert line.endswith("label = a,b: expected a name without a comma, which stands between names")
