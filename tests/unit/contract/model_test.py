import tempfile
import unittest
from pathlib import Path

import support
import model


class Layout(unittest.TestCase):
    def test_natural_alignment_in_order(self):
        kernel = model.parse(support.small_contract()).kernels[0]
        offsets = {arg.name: (arg.offset, arg.size) for arg in kernel.args}
        self.assertEqual(offsets, {"in": (0, 8), "rows": (8, 4), "count": (16, 8), "width": (24, 4), "stride": (28, 4),
                                   "factor": (32, 4), "map": (64, 64), "out": (128, 8)})
        self.assertEqual(kernel.argument_bytes, 136)
        self.assertEqual(kernel.struct, "ScaleRowsArgs")

    def test_the_projects_own_contract(self):
        contract = model.load(support.CONTRACT)
        names = [kernel.name for kernel in contract.kernels]
        self.assertEqual(names, ["dense_gemm_bf16", "dense_gemv_bf16", "dense_gemv_bf16_batchm", "pack_qkv", "gate",
                                 "sigmoid", "conv_decode", "conv_prefill", "l2", "fill", "split_widen", "recurrent",
                                 "recurrent_smem", "chunk_prepare", "chunk_scan", "o_norm"])
        optional = [kernel.name for kernel in contract.kernels if not kernel.required]
        self.assertEqual(optional, ["dense_gemv_bf16_batchm", "recurrent_smem"])
        # Vulkan passes up to 128 bytes in push constants, and every launch of this set fits.
        self.assertLessEqual(max(kernel.argument_bytes for kernel in contract.kernels), 128)


class Refusals(unittest.TestCase):
    def refused(self, change, *parts):
        contract = support.small_contract()
        change(contract, contract["kernels"][0])
        with self.assertRaises(model.ContractError) as caught:
            model.parse(contract)
        for part in parts:
            self.assertIn(part, str(caught.exception))

    def arg_refused(self, index, changes, *parts):
        self.refused(lambda contract, kernel: kernel["args"][index].update(changes), "scale_rows", *parts)

    def test_arguments(self):
        self.arg_refused(0, {"type": "pointer"}, "'in'", "'pointer'", "bytes")
        self.arg_refused(0, {"element": "fp8"}, "'in'", "fp8", "bf16")
        self.arg_refused(0, {"access": "read"}, "'in'", "read", "inout")
        self.arg_refused(0, {"align": 12}, "'in'", "12", "power of two")
        self.arg_refused(7, {"align": 2}, "'out'", "less than one element")
        self.arg_refused(0, {"extent": "rows * depth"}, "'in'", "extent", "depth")
        self.arg_refused(0, {"extent": "rows * factor"}, "'in'", "factor")
        self.arg_refused(1, {"extent": "rows"}, "'rows'", "extent", "unknown")
        self.arg_refused(1, {"name": "Rows"}, "'Rows'")
        self.arg_refused(2, {"name": "rows"}, "'rows'", "twice")
        self.arg_refused(6, {"size": 60}, "'map'", "60")
        self.refused(lambda _, kernel: kernel["args"][0].pop("align"), "'in'", "'align' is missing")

    def test_limits(self):
        self.refused(lambda _, kernel: kernel["args"].extend(
            {"name": f"x{i}", "type": "u32", "about": ""} for i in range(25)), "33 arguments", "32")
        self.arg_refused(6, {"size": 192}, "264 argument bytes", "256")

    def test_kernels(self):
        self.refused(lambda _, kernel: kernel.update(grid=[]), "scale_rows", "grid", "0 axes")
        self.refused(lambda _, kernel: kernel.update(grid=[64]), "scale_rows", "grid", "string")
        self.refused(lambda _, kernel: kernel.update(shared="4 * height"), "scale_rows", "shared", "height")
        self.refused(lambda _, kernel: kernel.update(tunables={"height": 1}), "scale_rows", "height")
        self.refused(lambda _, kernel: kernel.update(barriers="no"), "scale_rows", "barriers", "str", "bool")
        self.refused(lambda _, kernel: kernel.update(max_threads=0), "scale_rows", "max_threads")
        self.refused(lambda _, kernel: kernel.update(min_threads=65), "scale_rows", "min_threads", "65")
        self.refused(lambda _, kernel: kernel.update(colour="red"), "scale_rows", "colour", "unknown")
        self.refused(lambda contract, kernel: contract["kernels"].append(kernel), "scale_rows", "twice")
        self.refused(lambda contract, _: contract.update(kernels=[]), "empty")

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "contract.json"
            with self.assertRaisesRegex(model.ContractError, "contract.json"):
                model.load(path)
            path.write_text('{"set": "a", "set": "b"}')
            with self.assertRaisesRegex(model.ContractError, "'set' is there twice"):
                model.load(path)


if __name__ == "__main__":
    unittest.main()
