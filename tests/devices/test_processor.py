"""Reads a processor's features from Linux's description."""

import pytest

from albert.devices import host

_BEFORE = "processor\t: 0\nvendor_id\t: Maker\nmodel name\t: {}\nstepping\t: 4\nflags\t\t: fpu sse "
_AFTER = " sha_ni\nbugs\t\t: amx_bf16\n\n"
SKYLAKE = "avx avx2 avx512f avx512dq avx512vl"


@pytest.fixture
def find_on(tmp_path):
    def find(cpuinfo: str | None) -> host.Cpu:
        if cpuinfo is not None:
            (tmp_path / "proc").mkdir()
            (tmp_path / "proc/cpuinfo").write_text(cpuinfo)
        return host.find_processor(str(tmp_path))

    return find


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
def test_instructions_tell_whether_bfloat16_is_fast(find_on, flags, said, bfloat16):
    cpu = find_on((_BEFORE.format("EPYC") + flags + _AFTER) * 2)
    assert str(cpu) == f"EPYC ({said})"
    assert cpu.bfloat16() == bfloat16


@pytest.mark.parametrize("arm", [None, "processor\t: 0\nFeatures\t: fp bf16\nCPU part\t: 0xd40\n"])
def test_an_unknown_processor_is_reported_as_unknown(find_on, arm):
    cpu = find_on(arm)
    assert str(cpu) == "unknown (unknown instruction sets)"
    assert cpu.bfloat16() == (None, "")
