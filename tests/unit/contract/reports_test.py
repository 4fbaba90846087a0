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
    .kernarg_segment_size: 20
    .max_flat_workgroup_size: 256
    .name:           kdart_fill
    .private_segment_fixed_size: 0
    .sgpr_spill_count: 0
    .uses_dynamic_stack: false
    .vgpr_count:     5
    .vgpr_spill_count: 0
    .wavefront_size: 64
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
    def refused(self, text, before, after):
        self.assertIn(before, NOTES)
        with self.assertRaisesRegex(reports.ReportError, text):
            reports.read_amdgpu_notes(NOTES.replace(before, after), "gfx90a")

    def test_reads_registers_and_explicit_arguments(self):
        self.assertEqual(reports.read_amdgpu_notes(NOTES, "gfx90a"),
                         {"kdart_fill": reports.Resources(5, 64, [(0, 8), (8, 4)], 256)})

    def test_refuses_what_lies_in_memory(self):
        self.refused("kdart_fill: 16 bytes of scratch; expected none", "private_segment_fixed_size: 0",
                     "private_segment_fixed_size: 16")
        self.refused("kdart_fill: 2 spilled vector registers; expected none", "vgpr_spill_count: 0", "vgpr_spill_count: 2")
        self.refused("kdart_fill: 7 spilled scalar registers; expected none", "sgpr_spill_count: 0", "sgpr_spill_count: 7")
        self.refused("kdart_fill: a stack of unknown size", "dynamic_stack: false", "dynamic_stack: true")

    def test_refuses_waves_of_another_size(self):
        self.refused("kdart_fill: waves of 32; expected 64", "wavefront_size: 64", "wavefront_size: 32")
        for target, size in (("gfx906", 64), ("gfx90a", 64), ("gfx950", 64), ("gfx1030", 32), ("gfx1201", 32)):
            self.assertEqual(reports.wave_size(target), size)

    def test_refuses_an_argument_segment_that_is_too_small(self):
        self.refused("kdart_fill: 11 bytes of arguments, expected at least 12", "segment_size: 20", "segment_size: 11")

    def test_refuses_another_target(self):
        self.refused("is for gfx908, and is said to be for gfx90a", "amdhsa--gfx90a", "amdhsa--gfx908")
        self.refused("is for gfx90a:xnack-, and", "amdhsa--gfx90a", "amdhsa--gfx90a:xnack-")
        self.refused("is for nothing", "amdhsa.target", "amdhsa.other")

    def test_names_what_is_not_there(self):
        for field in ("vgpr_count:     5", "kernarg_segment_size: 20", "max_flat_workgroup_size: 256", "wavefront_size: 64"):
            self.refused(f"kdart_fill: the notes lack '{field.split(':')[0]}'", "." + field, "")


if __name__ == "__main__":
    unittest.main()
