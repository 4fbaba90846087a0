"""The page of registers and its check."""

import copy
import unittest

import support  # noqa: F401  (finds the modules)
import registers

MANIFEST = {
    "set": "small",
    "backend": "cuda",
    "toolchain": {"nvcc": "13.0.88"},
    "kernels": [{"name": "fill"}, {"name": "norm"}],
    "images": [
        {"target": "sm_80", "format": "cubin", "kernels": [
            {"name": "fill", "max_threads": 256, "static_shared_bytes": 0, "registers": 12},
            {"name": "norm", "max_threads": 128, "static_shared_bytes": 512, "registers": 40}]},
        {"target": "sm_90", "format": "cubin", "kernels": [
            {"name": "fill", "max_threads": 256, "static_shared_bytes": 0, "registers": 10}]},
        {"target": "compute_80", "format": "ptx", "kernels": [{"name": "fill", "max_threads": 256, "static_shared_bytes": 0}]},
    ],
}


class Page(unittest.TestCase):
    def test_has_every_kernel_on_every_target(self):
        page = registers.render(MANIFEST)
        self.assertIn("| kernel | threads | static shared | sm_80 | sm_90 |", page)
        self.assertIn("| fill | 256 | 0 | 12 | 10 |", page)
        self.assertIn("| norm | 128 | 512 | 40 | - |", page)
        self.assertIn("nvcc 13.0.88.", page)

    def test_agrees_with_its_build(self):
        self.assertEqual(registers.compare(MANIFEST, registers.render(MANIFEST)), [])

    def test_names_what_differs(self):
        page = registers.render(MANIFEST)
        other = copy.deepcopy(MANIFEST)
        other["images"][0]["kernels"][0]["registers"] = 13
        other["images"][0]["kernels"][1]["static_shared_bytes"] = 1024
        del other["images"][1]["kernels"][0]
        self.assertEqual(registers.compare(other, page), [
            "kernel fill, sm_80: the build has 13, the page 12",
            "kernel fill, sm_90: the build has nothing, the page 10",
            "kernel norm, static shared: the build has 1024, the page 512"])
        other["toolchain"]["nvcc"] = "13.1.2"
        self.assertEqual(registers.compare(other, page)[-1], "the page is of nvcc 13.0.88, the build of 13.1.2")

    def test_tells_static_shared_memory_that_one_target_alone_has(self):
        other = copy.deepcopy(MANIFEST)
        other["images"][1]["kernels"][0]["static_shared_bytes"] = 64
        self.assertIn("| fill | 256 | 0/64 | 12 | 10 |", registers.render(other))
        self.assertEqual(registers.compare(other, registers.render(MANIFEST)),
                         ["kernel fill, static shared: the build has 0/64, the page 0"])

    def test_an_empty_page_agrees_with_nothing(self):
        self.assertEqual(len(registers.compare(MANIFEST, "")), 8)


class AmdPage(unittest.TestCase):
    MANIFEST = {
        "set": "small",
        "backend": "hip",
        "toolchain": {"clang": "19.1.7"},
        "kernels": [{"name": "fill"}],
        "images": [{"target": target, "format": "code_object", "kernels": [
            {"name": "fill", "max_threads": 256, "static_shared_bytes": 0, "registers": registers}]}
                   for target, registers in (("gfx906", 82), ("gfx90a", 174), ("gfx1100", 139))],
    }

    def test_has_registers_and_waves(self):
        page = registers.render(self.MANIFEST)
        self.assertIn("| fill | 256 | 0 | 82 (3) | 174 (2) | 139 (10) |", page)
        self.assertIn("clang 19.1.7.", page)
        self.assertEqual(registers.compare(self.MANIFEST, page), [])
        other = copy.deepcopy(self.MANIFEST)
        other["images"][2]["kernels"][0]["registers"] = 145
        self.assertEqual(registers.compare(other, page), ["kernel fill, gfx1100: the build has 145 (9), the page 139 (10)"])

    def test_waves_are_what_the_compiler_says(self):
        # From the comments that clang 19 writes into its assembly.
        for target, count, expected in (
                ("gfx906", 24, 10), ("gfx906", 27, 9), ("gfx906", 174, 1), ("gfx90a", 84, 5), ("gfx90a", 27, 8),
                ("gfx1100", 83, 16), ("gfx1100", 139, 10), ("gfx1201", 0, 16)):
            with self.subTest(target=target, registers=count):
                self.assertEqual(registers.waves(count, target), expected)
        with self.assertRaisesRegex(ValueError, "gfx1310"):
            registers.waves(8, "gfx1310")


if __name__ == "__main__":
    unittest.main()
