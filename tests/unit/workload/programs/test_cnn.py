"""Convolutional networks: their published sizes, buckets, and what adding gradients up sends."""

import itertools

import pytest

from lightloom.errors import InputError
from lightloom.workload.compute import ComputeModel
from lightloom.workload.programs.cnn import NETWORKS, Cnn, buckets, networks_named, sum_of

#: parameters, and products of one image in 10^9, as torchvision states them
PUBLISHED = {
    "alexnet": (61_100_840, 0.714),
    "resnet-50": (25_557_032, 4.089),
    "vgg-16": (138_357_544, 15.47),
    "vgg-19": (143_667_240, 19.632),
}


@pytest.fixture(scope="module")
def kernels():
    return ComputeModel.load("a100", None).kernels


@pytest.mark.parametrize("name", NETWORKS)
def test_sizes_as_published(name):
    network = NETWORKS[name]()
    parameters, products = PUBLISHED[name]
    assert network.parameters == parameters
    assert network.products / 1e9 == pytest.approx(products, rel=1e-3)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_is_in_one_bucket_and_the_last_layers_come_first(name):
    network = NETWORKS[name]()
    order = list(itertools.chain(*buckets(network, 4)))
    assert order == list(reversed(range(len(network.layers))))
    full = list(buckets(network, 4))[1:-1]
    assert all(4 * sum_of(network, layers) >= 25 << 20 for layers in full)


@pytest.mark.parametrize("gpus_per_server", [1, 4, 8])
def test_bytes_of_rings(kernels, gpus_per_server):
    """2 (n - 1) / n of the gradients from every GPU; the last one of a server sends them on."""
    cnn = Cnn(networks_named("resnet-50+alexnet"))
    gpus = 32
    traffic = cnn.step(gpus, gpus_per_server, kernels, 1.0).traffic["dp"]
    size = 4 * sum(network.parameters for network in cnn.networks)
    servers = gpus // gpus_per_server
    around = 2 * size * (gpus - 1) / gpus
    assert traffic.network_bytes == pytest.approx(around * servers, rel=1e-6)
    inside = around * (gpus_per_server - 1) * servers
    assert traffic.local_bytes == pytest.approx(inside, rel=1e-6, abs=1)


@pytest.mark.parametrize("synchronization", ["server", "sharded-servers"])
@pytest.mark.parametrize("gpus_per_server", [1, 8])
def test_bytes_of_parameter_servers(kernels, synchronization, gpus_per_server):
    """Gradients of all ranks but the server's go there, and parameters come back."""
    cnn = Cnn(networks_named("vgg-16"), synchronization=synchronization)
    gpus = 16
    traffic = cnn.step(gpus, gpus_per_server, kernels, 1.0).traffic["dp"]
    size = 4 * cnn.networks[0].parameters
    assert traffic.total_bytes == pytest.approx(2 * (gpus - 1) * size, rel=1e-5)


def test_computation_follows_the_images(kernels):
    def computed(images):
        graph = Cnn(networks_named("vgg-19"), images).step(8, 8, kernels, 1.0).graph
        program = graph.roles[0].program
        return sum(program.size[program.kind == 0].tolist())

    assert 1.8 < computed(256) / computed(128) < 2.05
    # two products for each product of the model forward, four backward, at most at the peak
    at_least = 6 * 19.632e9 * 256 / 312e12
    assert at_least * 1e12 < computed(256) < 3 * at_least * 1e12


def test_a_name_that_is_half_known():
    with pytest.raises(InputError, match="'vgg' of 'resnet-50\\+vgg' is no network: known are"):
        networks_named("resnet-50+vgg")
    assert networks_named("mixtral-8x7b") == ()
