"""Whose kernels communicate: names as profiles and the libraries' sources have them."""

import datetime
import tomllib
from importlib import resources

import pytest

from lightloom.trace.importers.libraries import communication_kernel, is_fused, parts_of
from lightloom.trace.importers.operations import element_bytes, operation_of


@pytest.mark.parametrize(
    ("name", "library", "place", "op"),
    [
        # as in profiles
        ("void dpsk::ep::internode::combine<false, 8, __nv_bfloat16, 8, 2, 16, 24>(int4*, float*)",
         "DeepEP", "between servers", "all_to_all"),
        ("void deep_ep::intranode::dispatch<(int)2, (int)768, (int)8192>(int4 *, float *)",
         "DeepEP", "inside a server", "all_to_all"),
        ("void deep_ep::internode_ll::combine<(bool)0, (int)6144, (int)11>(void *, void *)",
         "DeepEP", "low latency", "all_to_all"),
        ("deep_ep::legacy::intranode::combine<x>", "DeepEP", "inside a server", "all_to_all"),
        ("deep_ep::elastic::hybrid_dispatch_impl<1>(x)", "DeepEP", "", "all_to_all"),
        ("deep_ep::elastic::pp_send_impl<1>(x)", "DeepEP", "", "send"),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*,"
         " unsigned long, unsigned int**)", "PyTorch symmetric memory", "", "all_reduce"),
        ("void <unnamed>::one_shot_all_reduce_kernel<c10::BFloat16, 16, 8>(x)",
         "PyTorch symmetric memory", "", "all_reduce"),
        ("c10d::nvshmem_extension::allToAllV_2d(void*, void*)", "PyTorch symmetric memory", "",
         "all_to_all"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "NCCL", "",
         "all_reduce"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclWorkElem)", "NCCL", "", "reduce_scatter"),
        ("ncclSymkDevKernel_AllGather_LLMC(ncclSymkDevWorkArgs4K)", "NCCL", "", "all_gather"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "NCCL", "", None),
        ("ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)", "NCCL", "", None),
        ("mscclKernel_Sum_float_Simple_false(ncclDevComm*)", "NCCL", "", None),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(x)", "custom all-reduce", "",
         "all_reduce"),
        ("void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half>, __half>(x)",
         "custom all-reduce", "", "all_reduce"),
        ("void aiter::reduce_scatter_split_lastdim<bf16, 8>(x)", "AITER", "", "reduce_scatter"),
        ("void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<x>(y)",
         "TensorRT-LLM", "", "all_reduce"),
        ("tensorrt_llm::kernels::twoShotAllReduceKernel<half>(x)", "TensorRT-LLM", "",
         "all_reduce"),
        ("flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<8>(x)", "TensorRT-LLM",
         "", "all_reduce"),
        ("userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>(int)", "Transformer Engine", "",
         "reduce_scatter"),
        ("userbuffers_fp16_sum_inplace_gpu_rw_ag<2>(int)", "Transformer Engine", "", "all_gather"),
        ("userbuffers_fp16_sum_inplace_gpu_mc<4>(int)", "Transformer Engine", "", "all_reduce"),
        ("kuserbuffers_pushsendrecv(int*, int*)", "Transformer Engine", "", "send"),
        ("void fcollect_on_stream_kernel<int, 1>(int)", "NVSHMEM", "", "all_gather"),
        ("nvshmem_alltoall_kernel", "NVSHMEM", "", "all_to_all"),
        ("void mscclpp::collective::allreduceNvlsPacket<x>(y)", "MSCCL++", "", "all_reduce"),
        ("EpDispatchIntraNodeKernel_bf16.kd", "MORI", "", "all_to_all"),
        ("void mori::moe::EpCombineInterNodeKernel<x>(y)", "MORI", "", "all_to_all"),
        ("mori::collective::OneShotAll2allSdmaKernel<x>(y)", "MORI", "", "all_to_all"),
        ("mori::collective::AllGatherRingKernel<x>(y)", "MORI", "", "all_gather"),
        ("void uccl::internode_ll::dispatch<true>(x)", "UCCL", "low latency", "all_to_all"),
        ("nccl_ep_jit_ht_combine_kernel", "NCCL EP", "", "all_to_all"),
        ("void hybrid_ep::dispatch_kernel<unsigned short, 8>(x)", "NCCL EP", "", "all_to_all"),
        ("void (anonymous namespace)::dispatchKernel<8u, true, true>(int*)", "pplx", "",
         "all_to_all"),
        ("a2a_combine_send_kernel<true, 16>(x)", "pplx", "", "all_to_all"),
        ("bytedance::flux::post_attn_all2all_transpose_kernel<x>(y)", "Flux", "", "all_to_all"),
        ("kernel_combine_token", "Triton-distributed", "", "all_to_all"),
        ("allreduce_one_shot_push_intra_node_kernel", "Triton-distributed", "", "all_reduce"),
        # mangled, as where no demangler was at hand
        ("_ZN7deep_ep9internode8dispatchILb0ELi8EEEvP4int4", "DeepEP", "between servers",
         "all_to_all"),
        ("_Z21ncclDevKernel_Generic24ncclDevKernelArgsStorageILm4096EE", "NCCL", "", None),
        ("_ZN54_GLOBAL__N__d8ceb000_21_CUDASymmetricMemoryOps_cu_1e4f26multimem_all_gather_kernel"
         "ILi16EEEvPc", "PyTorch symmetric memory", "", "all_gather"),
    ],
)  # fmt: skip
def test_kernels_that_carry_data(name, library, place, op):
    kernel = communication_kernel(name)
    assert (kernel.library, kernel.place, kernel.op, kernel.carries) == (library, place, op, True)


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("void dpsk::ep::internode::cached_notify<false>(int, int)", "DeepEP"),
        ("void deep_ep::intranode::notify_dispatch<8>(int const*)", "DeepEP"),
        ("void deep_ep::elastic::dispatch_copy_epilogue_impl<1>()", "DeepEP"),
        ("void uccl::layout::get_dispatch_layout<1>()", "UCCL"),
        ("tensorrt_llm::kernels::moe_alltoall::moeA2APrepareDispatchKernel(x)", "TensorRT-LLM"),
        ("EpCombineLowLatencyAsyncRecvCopy_bf16", "MORI"),
        ("a2a_dispatch_recv_kernel<16>(x)", "pplx"),
        ("void c10d::symmetric_memory::barrier_kernel(x)", "PyTorch symmetric memory"),
    ],
)
def test_kernels_that_prepare_or_await_a_call(name, library):
    kernel = communication_kernel(name)
    assert (kernel.library, kernel.op, kernel.carries) == (library, None, False)


@pytest.mark.parametrize(
    "name",
    [
        "void cutlass::Kernel2<gemm>(x)",
        "void cutlass::device_kernel<dpsk::grouped_gemm::cuda::fp8_ptp128c::GemmKernel>(x)",
        "void cutlass::device_kernel<flash::FlashAttnBwd<flash::CollectiveMainloopBwd<2>>>(x)",
        "void at::native::_scatter_gather_elementwise_kernel<128, 4>(int)",
        "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(x)",
        "void at::native::dispatch<float>()",
        "void cuda::reduce_fused_impl<__nv_bfloat16, false, false>(int4 const*)",
        "triton_poi_fused_all_gather_into_tensor_split_3",
        "softmax_warp_forward_shmem",
        "Cijk_Ailk_Bljk_BBS_BH_Bias_MT256x256x64",
        "",
    ],
)
def test_kernels_that_compute(name):
    assert communication_kernel(name) is None
    assert not is_fused(name)


def test_every_library_has_a_source():
    text = resources.files("lightloom.trace.importers").joinpath("libraries.toml").read_text()
    kinds = {"prepares", "computes", "named", "all_reduce", "all_gather", "reduce_scatter",
             "all_to_all", "broadcast", "send", "receive"}  # fmt: skip
    for library in tomllib.loads(text)["library"]:
        assert library["source"].startswith("https://github.com/"), library["name"]
        assert datetime.date.fromisoformat(library["date"]) > datetime.date(2024, 1, 1)
        of_kinds = library.keys() - {"name", "source", "date", "namespaces", "others"}
        assert of_kinds
        assert of_kinds <= kinds
        assert library.get("others", "prepares") == "prepares"


def test_kernels_of_no_library():
    kernel = communication_kernel("void acme::my_all_gather<4>(x)")
    assert (kernel.library, kernel.op) == ("", "all_gather")
    assert communication_kernel("acme::a2a_kernel(x)").op == "all_to_all"
    assert communication_kernel("acme::multimem_store(x)").op is None
    assert communication_kernel("acme::gemm_all_reduce(x)") is None
    assert is_fused("acme::gemm_all_reduce(x)")


def test_names_are_taken_apart():
    assert parts_of("void a::b<c::d>::e(f)") == ("a", "b")
    assert parts_of("x [clone .kd]") == ("x",)
    assert parts_of("_ZN2at6native4copyIfEvPT_") == ("at", "native", "copy")
    assert parts_of("_Z999999999999x") == ("x",)


def test_operations_and_types_by_name():
    assert operation_of("ncclDevKernel_SendRecv(x)") is None
    assert operation_of("ncclKernel_Reduce_RING_LL_Sum_float(ncclWorkElem)") == "reduce"
    assert operation_of("reduce_scatter_tensor_coalesced") == "reduce_scatter"
    types = ("BFloat16", "Float8_e4m3fn", "Long", "c10::Half", "long int", "c10::Float8_e5m2", "x")
    assert [element_bytes(name) for name in types] == [2, 1, 8, 2, 8, 1, None]
