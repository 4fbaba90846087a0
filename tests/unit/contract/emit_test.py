import contextlib
import io
import os
import tempfile
import unittest
from pathlib import Path

import support
import emit_cpp
import emit_device
import emit_docs
import generate
import model


class Emitted(unittest.TestCase):
    def setUp(self):
        self.contract = model.parse(support.small_contract())

    def test_header(self):
        text = emit_cpp.header(self.contract)
        for part in ("struct ScaleRowsArgs {", "DevicePtr in;", "std::uint64_t count;",
                     "alignas(64) std::array<std::byte, 64> map;", "static_assert(offsetof(ScaleRowsArgs, out) == 128);",
                     "const Contract& small_contract();"):
            self.assertIn(part, text)

    def test_source(self):
        text = emit_cpp.source(self.contract)
        for part in ('{"out", ArgKind::ptr, 128, 8, "f32", ArgAccess::out, true, 4, "rows * width"},',
                     '{"map", ArgKind::bytes, 64, 64, "", ArgAccess::none, false, 0, ""},',
                     "{grid_axis(ceil_div(value(a.width), 64u)), grid_axis(value(a.rows)), 1}",
                     "to_u32(mul(value(a.width), 4u))", "elements[1] = 0;"):
            self.assertIn(part, text)

    def test_device(self):
        text = emit_device.params(self.contract)
        for part in ("const kdart_bf16* KDART_RESTRICT in", "unsigned long long count", "kdart_bytes_64_64 map",
                     "struct alignas(64) kdart_bytes_64_64 { unsigned char data[64]; };", "float* KDART_RESTRICT out",
                     "#define KDART_MAX_THREADS_scale_rows 64"):
            self.assertIn(part, text)
        table = emit_device.cpu_table(self.contract)
        self.assertIn("kdart_block_scale_rows", table)
        self.contract.kernels[0].barriers = True  # such a kernel cannot run thread after thread
        self.assertNotIn("kdart_block_scale_rows", emit_device.cpu_table(self.contract))

    def test_docs(self):
        text = emit_docs.document(self.contract)
        for part in ("## scale_rows", "| `out` | f32 pointer, out, may be null | 128 | 8 |", "Tunable: `width`, default 32"):
            self.assertIn(part, text)

    def test_a_file_that_says_the_same_is_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.md"
            page.write_text("something else")
            for left_alone in (False, True):
                os.utime(page, (1, 1))
                self.assertEqual(generate.main(["docs", str(support.CONTRACT), str(page)]), 0)
                self.assertEqual(page.stat().st_mtime == 1, left_alone)

    def test_stale_docs_are_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "kernels.md"
            self.assertEqual(generate.main(["docs", str(support.CONTRACT), str(page)]), 0)
            self.assertEqual(generate.main(["check-docs", str(support.CONTRACT), str(page)]), 0)
            page.write_text(page.read_text() + "\n")
            errors = io.StringIO()
            with contextlib.redirect_stderr(errors):
                self.assertEqual(generate.main(["check-docs", str(support.CONTRACT), str(page)]), 1)
            self.assertIn("stale", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
