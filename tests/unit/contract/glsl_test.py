import contextlib
import io
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import support
import emit_glsl
import generate
import model
import spirv


def parsed(change=None):
    document = support.small_contract()
    if change:
        change(document["kernels"][0])
    return model.parse(document)


def drop(*names):
    """A change that leaves out arguments."""
    return lambda kernel: kernel.update(args=[arg for arg in kernel["args"] if arg["name"] not in names])


class Emitted(unittest.TestCase):
    def text(self, change=None):
        return emit_glsl.includes(parsed(change))["scale_rows"]

    def test_a_block_in_push_constants(self):
        text = self.text(drop("map"))
        self.assertIn("layout(push_constant, std430) uniform KdartArguments {\n"
                      "  layout(offset = 0) KdartInBf16Align16 p_in;\n"
                      "  layout(offset = 8) uint rows;\n"
                      "  layout(offset = 16) uint64_t count;\n"
                      "  layout(offset = 24) uint width;\n"
                      "  layout(offset = 28) uint stride;\n"
                      "  layout(offset = 32) float factor;\n"
                      "  layout(offset = 40) KdartOutF32Align4 p_out;\n"
                      "} args;\n", text)

    def test_a_block_too_large_for_push_constants(self):
        text = self.text()
        self.assertIn("layout(buffer_reference, std430, buffer_reference_align = 64) restrict readonly buffer "
                      "KdartArguments {", text)
        self.assertIn("  layout(offset = 64) uint map[16];\n", text)
        self.assertIn("layout(push_constant, std430) uniform KdartArgumentsAddress { "
                      "layout(offset = 0) KdartArguments args; };", text)

    def test_the_limit_is_128_bytes(self):
        def resized(size):
            def change(kernel):
                drop("map")(kernel)
                kernel["args"].append({"name": "tail", "type": "bytes", "size": size, "align": 4, "about": ""})
            return change
        self.assertIn("} args;", self.text(resized(80)))
        self.assertIn("KdartArgumentsAddress", self.text(resized(84)))

    def test_access(self):
        text = self.text(drop("map"))
        self.assertIn("buffer_reference_align = 16) restrict readonly buffer KdartInBf16Align16 { uint16_t x; };", text)
        self.assertIn("buffer_reference_align = 4) restrict writeonly buffer KdartOutF32Align4 { float x; };", text)
        self.assertIn("uint load_in(uint64_t i) { "
                      "return uint(KdartInBf16Align2(uint64_t(args.p_in) + i * 2ul).x); }", text)
        self.assertIn("uvec4 load_in_words(uint64_t i)", text)
        self.assertNotIn("store_in(", text)
        self.assertIn("void store_out(uint64_t i, float x)", text)
        self.assertNotIn("load_out(", text)
        self.assertIn("bool has_out()", text)
        self.assertNotIn("has_in(", text)

    def test_what_is_read_and_written_is_not_restricted(self):
        def change(kernel):
            kernel["args"][-1].update(access="inout", nullable=False)
        text = self.text(change)
        self.assertIn(" buffer_reference_align = 4) buffer KdartInoutF32Align4 { float x; };", text)
        self.assertIn("float load_out(uint64_t i)", text)
        self.assertIn("void store_out(uint64_t i, float x)", text)

    def test_words_need_their_alignment(self):
        self.assertNotIn("load_in_words", self.text(lambda kernel: kernel["args"][0].update(align=8)))

    def test_block_and_shared_memory(self):
        text = self.text(lambda kernel: kernel.update(min_threads=32))
        for part in ("layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;",
                     "layout(constant_id = 3) const uint kdart_shared_words = 1;",
                     "shared float kdart_shared[kdart_shared_words];",
                     "const uint kdart_min_threads = 32;", "const uint kdart_max_threads = 64;"):
            self.assertIn(part, text)
        self.assertNotIn("kdart_shared", self.text(lambda kernel: kernel.update(shared="0")))

    def test_bytes_are_whole_words(self):
        with self.assertRaisesRegex(model.ContractError, "'scale_rows', argument 'map': 2 bytes aligned to 2"):
            self.text(lambda kernel: kernel["args"][6].update(size=2, align=2))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(generate.main(["glsl", str(support.CONTRACT), folder]), 0)
            names = {path.name for path in (Path(folder) / "kernels" / "vulkan").iterdir()}
            kernels = model.load(support.CONTRACT).kernels
            self.assertEqual(names, {f"{kernel.name}_arguments.glsl" for kernel in kernels})

    def test_refusal(self):
        with tempfile.TemporaryDirectory() as folder:
            errors = io.StringIO()
            with contextlib.redirect_stderr(errors):
                self.assertEqual(generate.main(["glsl", str(Path(folder) / "none.json"), folder]), 1)
            self.assertIn("none.json", errors.getvalue())


@unittest.skipIf(shutil.which("glslc") is None, "glslc is not installed, so no GLSL can be compiled")
class Compiled(unittest.TestCase):
    """What glslc makes of an include is what the contract says."""

    MAIN = "void main() {{ if (has_out()) store_out(args.rows * {stride}ul, float(load_in(args.count))); }}\n"

    def module(self, contract, main):
        with tempfile.TemporaryDirectory() as folder:
            source, output = Path(folder) / "scale_rows.comp", Path(folder) / "scale_rows.spv"
            source.write_text("#version 460\n" + emit_glsl.includes(contract)["scale_rows"] + "\n" + main)
            subprocess.run(["glslc", "--target-env=vulkan1.2", "-O0", "-Werror", source, "-o", output], check=True)
            (module,) = spirv.read_modules(output.read_bytes())
            return module

    def test_arguments(self):
        for contract in (parsed(), parsed(drop("map"))):
            module = self.module(contract, self.MAIN.format(stride=3))
            spirv.check_arguments(contract.kernels[0], module)
            self.assertEqual(module.version, "spv1.5")
            self.assertEqual(module.capabilities,
                             ["Int64", "PhysicalStorageBufferAddresses", "Shader", "StorageBuffer16BitAccess"])

    def test_arguments_that_lie_elsewhere(self):
        module = self.module(parsed(drop("map")), self.MAIN.format(stride=3))
        with self.assertRaisesRegex(spirv.SpirvError, "the contract at"):
            spirv.check_arguments(parsed(drop("map", "factor")).kernels[0], module)

    def test_shared_memory(self):
        main = ("shared float own[12]; void main() { kdart_shared[0] = args.factor; own[0] = kdart_shared[args.width]; "
                "store_out(0ul, own[args.rows]); }")
        module = self.module(parsed(), main)
        self.assertEqual(module.static_shared_bytes, 48)

    def test_contraction(self):
        main = "void main() {{ {0} float x = args.factor * float(args.rows) + 1.0; store_out(0ul, x); }}"
        self.module(parsed(), main.format("precise")).check_arithmetic()
        with self.assertRaisesRegex(spirv.SpirvError, "may be contracted"):
            self.module(parsed(), main.format("")).check_arithmetic()
        with self.assertRaisesRegex(spirv.SpirvError, "function 27 of GLSL.std.450"):
            main = "void main() { precise float x = exp(args.factor); store_out(0ul, x); }"
            self.module(parsed(), main).check_arithmetic()


if __name__ == "__main__":
    unittest.main()
