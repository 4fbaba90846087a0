import unittest

import support
import reports

PTXAS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'kdart_fill' for 'sm_80'
ptxas info    : Function properties for kdart_fill
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers, 372 bytes cmem[0]
ptxas info    : Compiling entry function 'kdart_o_norm' for 'sm_80'
ptxas info    : Function properties for kdart_o_norm
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 36 registers, used 1 barriers, 128 bytes smem, 400 bytes cmem[0]
"""

NOTES = """\
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .actual_access:  write_only
        .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .offset:         8
        .size:           4
        .value_kind:     by_value
      - .offset:         16
        .size:           4
        .value_kind:     hidden_block_count_x
    .group_segment_fixed_size: 64
    .name:           kdart_fill
    .private_segment_fixed_size: 0
    .vgpr_count:     5
    .vgpr_spill_count: 0
amdhsa.target:   amdgcn-amd-amdhsa--gfx90a
amdhsa.version:
  - 1
  - 1
...
"""


class Ptxas(unittest.TestCase):
    def test_reads_registers_and_shared_memory(self):
        found = reports.read_ptxas(PTXAS)
        self.assertEqual(found, {"kdart_fill": reports.Resources(12, 0), "kdart_o_norm": reports.Resources(36, 128)})

    def test_refuses_spills(self):
        spilled = PTXAS.replace("0 bytes spill loads", "8 bytes spill loads", 1)
        with self.assertRaisesRegex(reports.ReportError, "kdart_fill: .*8 bytes spill loads"):
            reports.read_ptxas(spilled)


PTX = """\
//
.version 9.0
.target sm_80
.address_size 64

.visible .entry kdart_fill(
\t.param .u64 kdart_fill_param_0,
\t.param .u32 kdart_fill_param_1,
\t.param .f32 kdart_fill_param_2,
\t.param .align 64 .b8 kdart_fill_param_3[128]
)
.maxntid 256, 1, 1
{
\tret;
}
.visible .entry kdart_none()
{
\tret;
}
"""


class Ptx(unittest.TestCase):
    def test_reads_entries_and_arguments(self):
        found, isa = reports.read_ptx("some.ptx", PTX, "compute_80")
        self.assertEqual(isa, 90)
        self.assertEqual(found, {"kdart_fill": reports.Resources(None, 0, [(0, 8), (8, 4), (12, 4), (64, 128)]),
                                 "kdart_none": reports.Resources(None, 0, [])})

    def test_refuses_what_is_no_ptx_or_for_another_target(self):
        with self.assertRaisesRegex(reports.ReportError, "some.ptx: it is no PTX"):
            reports.read_ptx("some.ptx", "int main() {}", "compute_80")
        with self.assertRaisesRegex(reports.ReportError, "it is for sm_80, and is said to be for compute_90"):
            reports.read_ptx("some.ptx", PTX, "compute_90")


class AmdNotes(unittest.TestCase):
    def test_reads_registers_and_explicit_arguments(self):
        self.assertEqual(reports.read_amdgpu_notes(NOTES), {"kdart_fill": reports.Resources(5, 64, [(0, 8), (8, 4)])})

    def test_refuses_scratch_and_gaps(self):
        with self.assertRaisesRegex(reports.ReportError, "kdart_fill: 16 bytes of scratch"):
            reports.read_amdgpu_notes(NOTES.replace("private_segment_fixed_size: 0", "private_segment_fixed_size: 16"))
        with self.assertRaisesRegex(reports.ReportError, "kdart_fill: the notes lack 'vgpr_count'"):
            reports.read_amdgpu_notes(NOTES.replace(".vgpr_count:     5", ""))


if __name__ == "__main__":
    unittest.main()
