"""Numbers, names and options as people write them: read, or answered with the word to use."""

import pytest


@pytest.mark.parametrize("rate", ["400G", "400GbE", "0.4T", "'400 Gbps'"])
def test_numbers_as_people_write_them(lightloom, rate):
    shown = lightloom(["fabrics", "--gpus", "1,024", "--rate", rate.strip("'")])
    assert (shown.status, shown.err) == (0, "")
    assert "Network cost for 1,024 GPUs at 400 Gb/s" in shown.out
