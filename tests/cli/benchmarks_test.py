"""benchmarks/run and what it reads out of kda-probe's JSON."""

import json
import os
import pathlib
import subprocess
import sys
import unittest.mock

from support import ProbeTest, golden, main, settings

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tables(*arguments):
    command = [sys.executable, "-B", str(ROOT / "benchmarks" / "tables.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class Tables(ProbeTest):
    def write(self, name, document):
        path = self.folder / name
        path.write_text(json.dumps(document))
        return path

    def documents(self, *arguments):
        model = golden("head64-mini")
        return [self.check_json("layer", model, "--cases", model / "cases.safetensors", *arguments)]

    def test_the_same_bits(self):
        documents = self.documents("--route", "reference")
        one = self.write("one.json", documents)
        result = tables("same", one, self.write("two.json", documents))
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("SAME BITS in 23 of 23", result.stdout)
        documents[0]["results"][4]["state_sha256"] = "0" * 64
        result = tables("same", one, self.write("two.json", documents))
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, "(?m)^DIFFERENT head64-mini .* in state$")
        self.assertIn("SAME BITS in 22 of 23", result.stdout)
        del documents[0]["results"][4]
        self.assertEqual(tables("same", one, self.write("two.json", documents)).returncode, 1)
        empty = self.write("empty.json", [])
        self.assertEqual(tables("same", empty, empty).returncode, 1)

    def launch(self, device, **row):
        row = {"context": "current", "kdart_us": 2.2, "bare_us": 2.0, "ratio": 1.1, "bare_missing": None, "error": None,
               **row}
        none = {**row, "context": "none", "ratio": 3.0}
        graph = {"us_per_kernel": 1.3, "error": None}
        document = {"device": {"id": device}, "results": [row, none], "graph": graph, "pass": row["error"] is None}
        return tables("launch", self.write("launch.json", document))

    def test_the_ratio_of_a_launch_with_the_context_current_decides(self):
        good = self.launch("cuda:0")
        self.assertEqual(good.returncode, 0, good.stdout)
        self.assertIn("context current: KernelLaunch 2.200 us, the driver's own call 2.000 us, ratio 1.100", good.stdout)
        self.assertEqual(self.launch("cuda:0", ratio=1.15).returncode, 0)
        self.assertEqual(self.launch("cuda:0", ratio=1.151).returncode, 1)
        self.assertEqual(self.launch("cuda:0", bare_us=None, ratio=None, bare_missing="why").returncode, 1)
        self.assertEqual(self.launch("vulkan:0", bare_us=None, ratio=None, bare_missing="why").returncode, 0)
        self.assertEqual(self.launch("cuda:0", error={"message": "what"}).returncode, 1)

    def test_times(self):
        path = self.folder / "bench-decode.json"
        arguments = ["--geometry", "2,64,128", "--mode", "decode", "--repeats", "1"]
        self.check_ok("bench", "layer", *arguments, "--graph", "--format", "json", "--output", path)
        lines = tables("times", path).stdout.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], r"^TIME 2,64,128 +decode +1 tokens x 1 +calls +median +[0-9.]+ us, floor +[0-9.]+ us, ")
        closing = tables("closing", self.folder).stdout.splitlines()
        self.assertEqual(len(closing), 4)
        self.assertRegex(closing[2], r"^\| 2,64,128 \| decode \| 1 \| calls \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \|$")
        batch = self.folder / "batch.json"
        self.check_ok("bench", "core", *arguments, "--batch", "4", "--format", "json", "--output", batch)
        self.assertRegex(tables("times", batch).stdout, r"^TIME 2,64,128 +recurrent_smem +1 tokens x 4 .* states [0-9.]+ TB/s")

    def test_usage(self):
        for path in (self.write("error.json", {"error": {"message": "no device"}}), self.write("empty.json", {})):
            for command in ("times", "launch"):
                result = tables(command, path)
                self.assertEqual((result.returncode, result.stderr), (1, ""))
                self.assertIn("NO RESULTS", result.stdout)
        for arguments in ([], ["times"], ["frobnicate", "x"], ["same", "one"]):
            self.assertEqual(tables(*arguments).returncode, 2)


class Run(ProbeTest):
    def run_steps(self, *steps, bin_=None):
        environment = {**os.environ, "KDART_BIN": str(bin_ or pathlib.Path(settings.probe).parent)}
        command = [str(ROOT / "benchmarks" / "run"), "cpu:0", str(self.folder / "out"), *steps]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=500)

    def test_steps_end_in_a_table(self):
        result = self.run_steps("report", "launch")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertRegex(result.stdout, r"(?m)^launch overhead +ok +[0-9]+ s$")
        self.assertRegex(result.stdout, r"(?m)^LAUNCH no contexts: KernelLaunch [0-9.]+ us; ")
        log = (self.folder / "out" / "log.txt").read_text()
        self.assertIn("==> device: probe info cpu:0", log)
        self.assertNotIn(str(ROOT), log)
        self.assertGreater(json.loads((self.folder / "out" / "launch.json").read_text())["results"][0]["kdart_us"], 0)

    def test_a_step_that_fails_fails_the_run(self):
        program = self.folder / "kda-probe"
        program.write_text("#!/bin/sh\necho at $PWD/x >&2\nexit 5\n")
        program.chmod(0o755)
        # The sanitizer need not be there: that is a failure too.
        for step, name in (("launch", "launch overhead"), ("sanitize", "compute-sanitizer racecheck"), ("glm", "GLM decode of 64"),
                           ("core", "core decode"), ("reference", "same bits as cpu:0")):
            with self.subTest(step=step):
                result = self.run_steps(step, bin_=self.folder)
                self.assertEqual(result.returncode, 1)
                self.assertRegex(result.stdout, rf"(?m)^{name} +exit [0-9]+ ")
                log = (self.folder / "out" / "log.txt").read_text()
                self.assertNotIn(str(ROOT), log)

    def test_no_step_makes_a_usage_error(self):
        def program(name, text):
            path = self.folder / name
            path.write_text("#!/bin/sh\n" + text)
            path.chmod(0o755)

        # The true program on a device that is not there: it ends early, unless its command line is wrong.
        program("kda-probe", f"""set -- $(echo "$@" | sed 's/cpu:0/nosuch:0/')
            {settings.probe} "$@"
            code=$?
            echo "$code: $*" >>{self.folder}/calls
            exit $code
            """)
        program("compute-sanitizer", """while [ "${1#--}" != "$1" ]; do shift 2; done; exec "$@"\n""")
        for name in ("kdart_device_tests", "kdart_kda_tests"):
            program(name, "exit 0\n")
        with unittest.mock.patch.dict(os.environ, {"PATH": f"{self.folder}:{os.environ['PATH']}"}):
            result = self.run_steps("report", "golden", "reference", "device", "kda", "long", "glm", "sanitize", "launch",
                                    "core", "bench", bin_=self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertNotIn("Traceback", result.stdout + result.stderr + (self.folder / "out" / "log.txt").read_text())
        calls = (self.folder / "calls").read_text().splitlines()
        self.assertGreater(len(calls), 50)
        self.assertEqual([call for call in calls if call.startswith("2:")], [])
        self.assertEqual({call.split(":")[0] for call in calls}, {"0", "3"})

    def test_an_unknown_step(self):
        result = self.run_steps("nosuchstep")
        self.assertEqual(result.returncode, 2)
        self.assertIn("nosuchstep", result.stderr)


if __name__ == "__main__":
    main()
