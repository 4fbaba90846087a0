"""What kda-probe says of HIP on a machine without an AMD GPU, and over the tests' stand-in for its runtime.

KDART_TEST_HIP_RUNTIME is the folder with the stand-in, KDART_TEST_CUDA_DRIVER the CUDA driver that it runs on.
"""

import os
import unittest
import unittest.mock

from support import ProbeTest, main

RUNTIME, DRIVER = os.environ["KDART_TEST_HIP_RUNTIME"], os.environ["KDART_TEST_CUDA_DRIVER"]
TARGET = "gfx942:sramecc+:xnack-"


def machine(**variables):
    """A machine whose HIP runtime is the stand-in, on this CUDA driver and with these variables."""
    paths = ":".join(filter(None, [RUNTIME, os.environ.get("LD_LIBRARY_PATH")]))
    return unittest.mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": paths, "KDART_HIP_ON_CUDA_TARGET": TARGET, **variables})


class Hip(ProbeTest):
    def backend(self):
        return next(entry for entry in self.check_json("list")["backends"] if entry["backend"] == "hip")

    def test_no_device_names_the_library_and_the_reason(self):
        with machine(KDART_HIP_ON_CUDA_DRIVER="/nowhere/libcuda.so.1", HIP_VISIBLE_DEVICES=""):
            text = self.check_ok("list").stdout
            self.assertRegex(text, r"(?m)^hip +none: no_device ")
            line = next(line for line in text.splitlines() if line.startswith("hip: no_device: "))
            for part in (f"{RUNTIME}/libamdhip64.so", "found no AMD GPU", "hipErrorNoDevice, 100", "HIP_VISIBLE_DEVICES is ''"):
                self.assertIn(part, line)
            entry = self.backend()
            self.assertEqual((entry["devices"], entry["error"]["code"]), ([], "no_device"))
            self.assertIn(RUNTIME, entry["error"]["message"])
            self.check_error(4, "no_device", "info", "hip:0", says=["found no AMD GPU"])

    def test_a_stand_in_is_called_one(self):
        with machine(KDART_HIP_ON_CUDA_DRIVER=DRIVER):
            text = self.check_ok("list").stdout
            self.assertRegex(text, rf"(?m)^hip:0 .* {TARGET.replace('+', '.')} ")
            self.assertRegex(text, r"(?m)^hip:0: no AMD GPU: this HIP runtime is a test library of kdart")
            self.assertRegex(self.check_ok("info", "hip:0").stdout, r"(?m)^note +no AMD GPU: ")
            device = self.backend()["devices"][0]
            self.assertEqual((device["target"], device["vendor"]), (TARGET, "not AMD"))
            self.assertIn("no AMD GPU", device["note"])
            self.assertEqual(device["limits"]["subgroup_min"], 64)

    def test_a_device_that_is_not_there(self):
        with machine(KDART_HIP_ON_CUDA_DRIVER=DRIVER, ROCR_VISIBLE_DEVICES="0"):
            self.check_error(4, "no_device", "info", "hip:1",
                             says=["there is no device hip:1", "1 device was found", "ROCR_VISIBLE_DEVICES is '0'"])


@unittest.skipUnless(os.environ.get("KDART_TEST_HIP_SET"), "this build has no kernel set for HIP")
class HipKernels(ProbeTest):
    """No device and no runtime is needed."""

    def kernels(self, target):
        return ["kernels", "--set", "hip", "--target", target]

    def test_chosen_image_rejected_ones_and_figures(self):
        for target, image in (("gfx942:sramecc+:xnack-", "kda.gfx942.co"), ("gfx90a:sramecc+:xnack+", "kda.gfx90a.co"),
                              ("gfx1100", "kda.gfx1100.co")):
            with self.subTest(target=target):
                document = self.check_json(*self.kernels(target))
                self.assertEqual(document["image"]["file"], image)
                others = {entry["file"]: entry["reason"] for entry in document["rejected"]}
                self.assertGreaterEqual(len(others), 7)
                self.assertNotIn(image, others)
                self.assertTrue(all(others.values()))
                self.assertEqual(document["missing"], [])
                rows = {row["name"]: row for row in document["kernels"]}
                self.assertEqual(rows["fill"]["argument_bytes"], 20)
                self.assertGreater(rows["chunk_scan"]["registers"], 64)
                self.assertEqual({row["shared_bytes"] for row in rows.values()}, {0})
                text = self.check_ok(*self.kernels(target)).stdout
                self.assertIn(image, text)
                for name, reason in others.items():
                    self.assertIn(name, text)
                    self.assertIn(reason, text)
                self.assertRegex(text, rf"(?m)^chunk_scan +{rows['chunk_scan']['registers']} ")

    def test_an_unknown_processor(self):
        self.check_error(5, "no_matching_image", *self.kernels("gfx9999"), says=["gfx9999", "kda.gfx90a.co"])


if __name__ == "__main__":
    main()
