import contextlib
import io
import json
import struct
import tempfile
import unittest
from pathlib import Path

import support
import manifest
import model
import spirv

ALLOWED = {"Shader", "Int64"}


def instruction(opcode, *operands):
    return [len(operands) + 1 << 16 | opcode, *operands]


def text(name):
    data = name.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return struct.unpack(f"<{len(data) // 4}I", data)


def module(offsets=(0, 8, 12, 16), capabilities=(1, 11), body=(), version=0x00010500):
    """A module with an 8-byte address, two u32 and a float as its arguments, in bytes. It need not compute anything."""
    words = [spirv.MAGIC, version, 0, 100, 0]
    for capability in capabilities:
        words += instruction(17, capability)
    words += instruction(15, 5, 1, *text("main"), 30)  # OpEntryPoint GLCompute %1 "main" %30
    words += instruction(5, 1, *text("main"))          # OpName
    for index, offset in enumerate(offsets):
        words += instruction(72, 20, index, 35, offset)
    words += instruction(21, 10, 64, 0) + instruction(21, 11, 32, 0) + instruction(22, 12, 32)
    words += instruction(30, 20, *[10, 11, 11, 12][:len(offsets)]) + instruction(32, 21, 9, 20)
    words += instruction(59, 21, 30, 9)                # OpVariable PushConstant
    for one in body:
        words += one
    return struct.pack(f"<{len(words)}I", *words)


def contract():
    """A kernel with such arguments, and an optional one."""
    document = support.small_contract()
    kernel = document["kernels"][0]
    kernel["args"] = [{"name": "in", "type": "ptr", "element": "f32", "access": "in", "extent": "width", "align": 4,
                       "about": ""},
                      {"name": "width", "type": "u32", "about": ""}, {"name": "rows", "type": "u32", "about": ""},
                      {"name": "factor", "type": "f32", "about": ""}]
    document["kernels"].append({**kernel, "name": "more", "required": False})
    return document


class Read(unittest.TestCase):
    def test_one_module(self):
        (one,) = spirv.read_modules(module())
        self.assertEqual((one.entry_point, one.version), ("main", "spv1.5"))
        self.assertEqual(one.capabilities, ["Int64", "Shader"])
        self.assertEqual(one.arguments(), [(0, 8), (8, 4), (12, 4), (16, 4)])
        self.assertEqual(one.static_shared_bytes, 0)
        self.assertEqual(one.data(), module())

    def test_modules_one_after_the_other(self):
        image = module() + module(version=0x00010600)
        self.assertEqual([one.version for one in spirv.read_modules(image)], ["spv1.5", "spv1.6"])

    def test_another_entry_point(self):
        for name in ("k", "kdart_scale_rows", "abcd"):
            (one,) = spirv.read_modules(module())
            one.rename_entry_point(name)
            (again,) = spirv.read_modules(one.data())
            self.assertEqual(again.entry_point, name)
            self.assertEqual(again.arguments(), one.arguments())
            self.assertEqual([other.opcode for other in again.instructions],
                             [other.opcode for other in one.instructions])

    def test_shared_memory(self):
        # Arrays of 5 floats, and of as many as the specialization constant %42 says.
        arrays = [instruction(43, 11, 41, 5), instruction(50, 11, 42, 1), instruction(28, 43, 12, 41),
                  instruction(28, 44, 12, 42)]
        fixed = [instruction(32, 45, 4, 43), instruction(59, 45, 46, 4)]
        dynamic = [instruction(32, 47, 4, 44), instruction(59, 47, 48, 4)]
        self.assertEqual(spirv.read_modules(module(body=arrays + fixed))[0].static_shared_bytes, 20)
        self.assertEqual(spirv.read_modules(module(body=arrays + dynamic))[0].static_shared_bytes, 0)
        self.assertEqual(spirv.read_modules(module(body=arrays + fixed + dynamic))[0].static_shared_bytes, 20)

    def test_what_is_no_spirv(self):
        whole = module()
        for data, reason in ((b"", "0 bytes"), (whole[:-1], "are no SPIR-V"), (whole[4:], "no module begins at byte 0"),
                             (whole[:16], "no module begins at byte 0"), (whole + bytes(4), "has 0 words"),
                             (whole[:-4], "words, and"),
                             (whole + struct.pack("<I", spirv.MAGIC), "no module begins at byte")):
            with self.assertRaisesRegex(spirv.SpirvError, reason):
                spirv.read_modules(data)

    def test_an_unknown_capability(self):
        with self.assertRaisesRegex(spirv.SpirvError, "capability number 9999"):
            _ = spirv.read_modules(module(capabilities=(1, 9999)))[0].capabilities


class Arithmetic(unittest.TestCase):
    def refused(self, reason, *body):
        with self.assertRaisesRegex(spirv.SpirvError, reason):
            spirv.read_modules(module(body=body))[0].check_arithmetic()

    def test_contraction(self):
        for opcode in (127, 129, 131, 133, 136, 142):
            one = instruction(opcode, 12, 60, 61, 62)
            self.refused("%60 may be contracted", one)
            spirv.read_modules(module(body=[instruction(71, 60, 42), one]))[0].check_arithmetic()

    def test_loose_functions(self):
        self.refused("OpDot", instruction(148, 12, 60, 61, 62))
        self.refused("function 50 of GLSL.std.450, expected one of Sqrt", instruction(12, 12, 60, 2, 50, 61, 62, 63))
        spirv.read_modules(module(body=[instruction(12, 12, 60, 2, 31, 61)]))[0].check_arithmetic()


class Linked(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.contract = model.parse(contract())

    def files(self, **modules):
        for name, data in modules.items():
            (self.folder / f"{name}.spv").write_bytes(data)
        return {name: self.folder / f"{name}.spv" for name in modules}

    def link(self, **modules):
        return spirv.link(self.contract, self.files(**modules), "kdart_", ALLOWED)

    def refused(self, reason, **modules):
        with self.assertRaisesRegex(spirv.SpirvError, reason):
            self.link(**modules)

    def test_order_and_names(self):
        image = spirv.read_modules(self.link(more=module(), scale_rows=module()))
        self.assertEqual([one.entry_point for one in image], ["kdart_scale_rows", "kdart_more"])
        (alone,) = spirv.read_modules(self.link(scale_rows=module()))
        self.assertEqual(alone.entry_point, "kdart_scale_rows")
        self.assertNotIn(5, [one.opcode for one in image[0].instructions])  # OpName

    def test_float_controls(self):
        controls = ["DenormPreserve", "RoundingModeRTE"]
        files = self.files(scale_rows=module())
        (one,) = spirv.read_modules(spirv.link(self.contract, files, "kdart_", ALLOWED, controls))
        self.assertEqual(one.capabilities, sorted([*controls, "Int64", "Shader"]))
        modes = [entry.operands for entry in one.instructions if entry.opcode == 16]
        self.assertEqual(sorted(modes), [[1, 4459, 32], [1, 4462, 32]])
        # The order of a module's sections: capabilities, then the entry point, then its modes.
        order = [entry.opcode for entry in one.instructions if entry.opcode in (15, 16, 17)]
        self.assertEqual(order, [17, 17, 17, 17, 15, 16, 16])

    def test_refusals(self):
        self.refused("kernel 'scale_rows' is missing", more=module())
        self.refused("no kernel 'other'", scale_rows=module(), other=module())
        self.refused("kernel 'scale_rows': 2 modules", scale_rows=module() + module())
        self.refused(r"kernel 'scale_rows': .*at \[\(0, 8\), \(8, 4\), \(16, 4\), \(20, 4\)\], the contract at",
                     scale_rows=module(offsets=(0, 8, 16, 20)))
        self.refused("the contract at", scale_rows=module(offsets=(0, 8, 12)))
        self.refused("kernel 'scale_rows': it needs the capability Float64, and this set may need Int64, Shader",
                     scale_rows=module(capabilities=(1, 10)))
        self.refused("may be contracted", scale_rows=module(body=[instruction(133, 12, 60, 61, 62)]))

    def test_command_line(self):
        path = self.folder / "contract.json"
        path.write_text(json.dumps(contract()))
        output = self.folder / "image.spv"
        arguments = ["--contract", str(path), "--prefix", "kdart_", "--output", str(output)]
        (file,) = self.files(scale_rows=module()).values()
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            self.assertEqual(spirv.main([*arguments, f"scale_rows={file}"]), 1)
            self.assertFalse(output.exists())
            allowed = ["--capability", "Shader", "--capability", "Int64"]
            self.assertEqual(spirv.main([*arguments, *allowed, f"scale_rows={file}"]), 0)
        self.assertIn("needs the capability", errors.getvalue())
        self.assertEqual(output.read_bytes(), self.link(scale_rows=module()))

    def manifest_of(self, image, target="spv1.5"):
        path = self.folder / "contract.json"
        path.write_text(json.dumps(contract()))
        (self.folder / "image.spv").write_bytes(image)
        output = self.folder / "manifest.json"
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = manifest.main(["--contract", str(path), "--backend", "vulkan", "--version", "1",
                                  "--symbol-prefix", "kdart_", "--output", str(output),
                                  "--image", str(self.folder / "image.spv"), target, "spirv"])
        return json.loads(output.read_text()) if code == 0 else errors.getvalue()

    def test_manifest(self):
        shared = [instruction(43, 11, 41, 5), instruction(28, 43, 12, 41), instruction(32, 45, 4, 43),
                  instruction(59, 45, 46, 4)]
        written = self.manifest_of(self.link(scale_rows=module(body=shared)))
        (image,) = written["images"]
        self.assertEqual((image["target"], image["format"]), ("spv1.5", "spirv"))
        self.assertEqual(image["capabilities"], ["Int64", "Shader"])
        self.assertEqual(image["kernels"], [{"name": "scale_rows", "symbol": "kdart_scale_rows", "max_threads": 64,
                                             "static_shared_bytes": 20, "tunables": {"width": 32}}])
        both = self.manifest_of(self.link(scale_rows=module(capabilities=(1,)), more=module()))
        self.assertEqual([kernel["name"] for kernel in both["images"][0]["kernels"]], ["scale_rows", "more"])
        self.assertEqual(both["images"][0]["capabilities"], ["Int64", "Shader"])

    def test_manifest_refusals(self):
        linked = self.link(scale_rows=module())
        self.assertIn("'kdart_scale_rows' is spv1.5, and the image is said to be spv1.3",
                      self.manifest_of(linked, "spv1.3"))
        self.assertIn("twice, 'kdart_scale_rows'", self.manifest_of(linked + linked))
        self.assertIn("an unknown kernel", self.manifest_of(module()))
        self.assertIn("no SPIR-V", self.manifest_of(linked + b"\0"))
        one, = spirv.read_modules(module())
        one.rename_entry_point("kdart_more")
        self.assertIn("no kernel 'kdart_scale_rows'", self.manifest_of(one.data()))
        elsewhere, = spirv.read_modules(module(offsets=(0, 8, 16, 20)))
        elsewhere.rename_entry_point("kdart_scale_rows")
        self.assertIn("the contract at", self.manifest_of(elsewhere.data()))


if __name__ == "__main__":
    unittest.main()
