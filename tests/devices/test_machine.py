"""The processor: its instructions from the kernel's list, and what is fast on it."""

import pytest

from albert.devices import machine
from tests.helpers.files import write_files

PROCESSOR = "processor\t: 0\nvendor_id\t: Maker\nmodel name\t: EPYC\nstepping\t: 4\nflags\t\t: "
PROCESSOR += "fpu sse {} sha_ni\nbugs\t\t: amx_bf16\n\n"
SKYLAKE = "avx avx2 avx512f avx512dq avx512vl"
ALL = f"{SKYLAKE} avx512_bf16"
SLOW, FAST = "the processor has neither AVX512_BF16 nor AMX", "the processor has AVX512_BF16"


@pytest.mark.parametrize(
    ("flags", "said", "bfloat16"),
    [
        ("avx", "no AVX2", (False, SLOW)),
        ("avx avx2", "AVX2", (False, SLOW)),
        # The names of some integer instructions begin with the same letters.
        (f"{SKYLAKE} avx512_vnni amx_int8", "AVX2, AVX-512, AVX512_VNNI", (False, SLOW)),
        (ALL, "AVX2, AVX-512, AVX512_BF16", (True, FAST)),
        (f"amx_bf16 {ALL} amx_tile", "AVX2, AVX-512, AVX512_BF16, AMX", (True, f"{FAST} and AMX")),
    ],
)
def test_instructions_tell_whether_bfloat16_is_fast(tmp_path, flags, said, bfloat16):
    files = {"proc/cpuinfo": PROCESSOR.format(flags) * 2}
    cpu = machine.find_processor(write_files(tmp_path, files))
    assert str(cpu) == f"EPYC ({said})"
    assert cpu.bfloat16() == bfloat16
    # What is faster also depends on the maker, and only what it can do is.
    makers = [cpu._replace(model=maker).fastest()[0] for maker in ("AMD EPYC", "Intel Xeon")]
    is_faster = bfloat16[0], "AMX" in said
    assert makers == ["bfloat16" if one else "float32" for one in is_faster]


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("avx2", "AVX2, limited by ONEDNN_MAX_CPU_ISA=avx2"),
        ("AVX512_CORE_VNNI", "AVX2, AVX-512, limited by ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI"),
        ("AVX512_CORE_BF16", "AVX2, AVX-512, AVX512_BF16"),
        ("ALL", "AVX2, AVX-512, AVX512_BF16"),
    ],
)
def test_instructions_that_onednn_may_not_use_do_not_count(tmp_path, monkeypatch, limit, said):
    monkeypatch.setenv(machine.LIMIT, limit)
    files = {"proc/cpuinfo": PROCESSOR.format(ALL)}
    cpu = machine.find_processor(write_files(tmp_path, files))
    assert str(cpu) == f"EPYC ({said})"
    assert cpu.bfloat16()[0] == ("limited" not in said)


@pytest.mark.parametrize(
    "files", [{}, {"proc/cpuinfo": "processor\t: 0\nFeatures\t: fp bf16\nCPU part\t: 0xd40\n"}]
)
def test_an_unknown_processor_is_reported_as_unknown(tmp_path, files):
    cpu = machine.find_processor(write_files(tmp_path, files))
    assert str(cpu) == "unknown (unknown instruction sets)"
    assert cpu.bfloat16() == (None, "") and cpu.fastest()[0] == "float32"
