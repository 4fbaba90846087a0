import contextlib
import hashlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import support
import manifest

# The parameters of scale_rows.
ARGUMENTS_IN_PTX = ",\n".join(f"\t.param .{kind} kdart_scale_rows_param_{i}{size}" for i, (kind, size) in enumerate([
    ("u64", ""), ("u32", ""), ("u64", ""), ("u32", ""), ("u32", ""), ("f32", ""), ("align 64 .b8", "[64]"), ("u64", "")]))


class Written(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.contract = self.folder / "contract.json"
        self.contract.write_text(json.dumps(support.small_contract()))
        self.image = self.folder / "small.so"
        self.image.write_bytes(b"an image")
        self.output = self.folder / "manifest.json"

    def run_with(self, *arguments):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = manifest.main(["--contract", str(self.contract), "--backend", "cpu", "--version", "1.2.3",
                                  "--output", str(self.output), *map(str, arguments)])
        return code, errors.getvalue()

    def refused(self, text, *arguments):
        code, errors = self.run_with(*arguments)
        self.assertEqual(code, 1)
        self.assertIn(text, errors)
        self.assertFalse(self.output.exists())

    def test_shared_object(self):
        code, errors = self.run_with("--tool", "g++=12.2.0", "--image", self.image, "x86-64", "elf_shared",
                                     "--tunable", "x86-64", "scale_rows", "width", "16")
        self.assertEqual((code, errors), (0, ""))
        written = json.loads(self.output.read_text())
        self.assertEqual(list(written), ["schema", "set", "version", "backend", "toolchain", "kernels", "images"])
        self.assertEqual(written["toolchain"], {"g++": "12.2.0"})
        self.assertEqual(written["kernels"][0]["argument_bytes"], 136)
        self.assertEqual(written["kernels"][0]["args"][-1], {"name": "out", "kind": "ptr", "offset": 128, "size": 8})
        image = written["images"][0]
        self.assertEqual((image["file"], image["bytes"]), ("small.so", 8))
        self.assertEqual(image["sha256"], hashlib.sha256(b"an image").hexdigest())
        self.assertEqual(image["kernels"], [{"name": "scale_rows", "symbol": "scale_rows", "static_shared_bytes": 0,
                                             "max_threads": 64, "tunables": {"width": 16}}])

    def test_report(self):
        report = self.folder / "ptxas.txt"
        report.write_text("ptxas info    : Compiling entry function 'kdart_scale_rows' for 'sm_80'\n"
                          "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                          "ptxas info    : Used 12 registers\n")
        cubin = ["--symbol-prefix", "kdart_", "--image", self.image, "sm_80", "cubin"]
        self.refused("needs its compiler's report", *cubin)
        code, errors = self.run_with(*cubin, report)
        self.assertEqual((code, errors), (0, ""))
        kernel = json.loads(self.output.read_text())["images"][0]["kernels"][0]
        self.assertEqual((kernel["symbol"], kernel["registers"]), ("kdart_scale_rows", 12))

    def test_ptx(self):
        entry = ".visible .entry kdart_scale_rows(\n{}\n)\n{{\n\tret;\n}}\n"
        parameters = ["\t.param .u64 kdart_scale_rows_param_0"]
        ptx = self.folder / "small.ptx"
        head = "//\n.version 8.7\n.target sm_80\n.address_size 64\n"
        ptx.write_text(head + entry.format(",\n".join(parameters)))
        arguments = ["--symbol-prefix", "kdart_", "--image", ptx, "compute_80", "ptx"]
        self.refused("'scale_rows': the image has its arguments at [(0, 8)]", *arguments)
        ptx.write_text(head)
        self.refused("no kernel 'kdart_scale_rows'", *arguments)
        ptx.write_text("int main() {}\n")
        self.refused("it is no PTX", *arguments)
        ptx.write_text(head + entry.format(ARGUMENTS_IN_PTX))
        self.refused("no report is read for a ptx image", *arguments, ptx)
        code, errors = self.run_with(*arguments)
        self.assertEqual((code, errors), (0, ""))
        image = json.loads(self.output.read_text())["images"][0]
        self.assertEqual((image["format"], image["ptx_isa"]), ("ptx", 87))
        self.assertEqual(image["kernels"], [{"name": "scale_rows", "symbol": "kdart_scale_rows", "static_shared_bytes": 0,
                                             "max_threads": 64, "tunables": {"width": 32}}])

    def test_missing_kernel(self):
        report = self.folder / "ptxas.txt"
        report.write_text("")
        self.refused("no kernel 'scale_rows'", "--image", self.image, "sm_80", "cubin", report)

    def notes(self, first=0, threads=64, shared=0):
        """A report on a code object with the small contract's kernel, or one that is wrong somewhere."""
        places = [(first, 8), (8, 4), (16, 8), (24, 4), (28, 4), (32, 4), (64, 64), (128, 8)]
        arguments = "".join(f"      - .offset:         {offset}\n        .size:           {size}\n"
                            "        .value_kind:     by_value\n" for offset, size in places)
        path = self.folder / "notes.txt"
        path.write_text(f"amdhsa.kernels:\n  - .args:\n{arguments}    .group_segment_fixed_size: {shared}\n"
                        f"    .kernarg_segment_size: 136\n    .max_flat_workgroup_size: {threads}\n"
                        "    .name:           scale_rows\n    .private_segment_fixed_size: 0\n    .sgpr_spill_count: 0\n"
                        "    .vgpr_count:     5\n    .vgpr_spill_count: 0\n    .wavefront_size: 64\n"
                        "amdhsa.target:   amdgcn-amd-amdhsa--gfx90a\n")
        return path

    def test_code_object(self):
        object_ = ["--image", self.image, "gfx90a", "code_object"]
        code, errors = self.run_with(*object_, self.notes())
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(json.loads(self.output.read_text())["images"][0]["kernels"][0]["registers"], 5)
        self.output.unlink()
        self.refused("'scale_rows': the image has its arguments at [(4, 8), ", *object_, self.notes(first=4))
        self.refused("'scale_rows': the image takes blocks of 63 threads, the contract has 64", *object_,
                     self.notes(threads=63))
        # 32 floats of dynamic shared memory come to the static ones.
        self.refused("'scale_rows': 65540 bytes of shared memory in its largest launch, an AMD GPU has 65536", *object_,
                     self.notes(shared=(64 << 10) - 124))
        self.refused("and is said to be for gfx906", "--image", self.image, "gfx906", "code_object", self.notes())

    def test_other_refusals(self):
        self.refused("no tunable 'depth'", "--tunable", "x86-64", "scale_rows", "depth", "16")
        elsewhere = self.folder / "sub" / "small.so"
        elsewhere.parent.mkdir()
        elsewhere.write_bytes(b"x")
        self.refused("does not lie in the manifest's folder", "--image", elsewhere, "x86-64", "elf_shared")


if __name__ == "__main__":
    unittest.main()
