"""Reads a processor's features from Linux's description."""

import pytest

from albert.devices import host
from tests.helpers.files import write_files

_BEFORE = "processor\t: 0\nvendor_id\t: Maker\nmodel name\t: {}\nstepping\t: 4\nflags\t\t: fpu sse "
_AFTER = " sha_ni\nbugs\t\t: amx_bf16\n\n"
SKYLAKE = "avx avx2 avx512f avx512dq avx512vl"


SLOW, FAST = "the processor has neither AVX512_BF16 nor AMX", "the processor has AVX512_BF16"


@pytest.mark.parametrize(
    ("flags", "said", "bfloat16"),
    [
        ("avx", "no AVX2", (False, SLOW)),
        ("avx avx2", "AVX2", (False, SLOW)),
        # The names of some integer instructions begin with the same letters.
        (f"{SKYLAKE} avx512_vnni amx_int8", "AVX2, AVX-512", (False, SLOW)),
        (f"{SKYLAKE} avx512_bf16", "AVX2, AVX-512, AVX512_BF16", (True, FAST)),
        (
            f"amx_bf16 {SKYLAKE} avx512_bf16 amx_tile",
            "AVX2, AVX-512, AVX512_BF16, AMX",
            (True, f"{FAST} and AMX"),
        ),
    ],
)
def test_instructions_tell_whether_bfloat16_is_fast(tmp_path, flags, said, bfloat16):
    files = {"proc/cpuinfo": (_BEFORE.format("EPYC") + flags + _AFTER) * 2}
    cpu = host.find_processor(write_files(tmp_path, files))
    assert str(cpu) == f"EPYC ({said})"
    assert cpu.bfloat16() == bfloat16


ARM = {"proc/cpuinfo": "processor\t: 0\nFeatures\t: fp bf16\nCPU part\t: 0xd40\n"}


@pytest.mark.parametrize("files", [{}, ARM])
def test_an_unknown_processor_is_reported_as_unknown(tmp_path, files):
    cpu = host.find_processor(write_files(tmp_path, files))
    assert str(cpu) == "unknown (unknown instruction sets)"
    assert cpu.bfloat16() == (None, "")
