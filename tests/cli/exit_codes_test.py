"""Every exit code of kda-probe, by a command line that has it."""

import json
import pathlib

from support import ProbeTest, golden, main, probe, read_safetensors, settings, write_safetensors

MODEL = "kimi-linear-mini"
TINY = ["--geometry", "2,64,128", "--mode", "decode", "--repeats", "1"]  # of a benchmark


class Ok(ProbeTest):
    def test_every_verb(self):
        for arguments in (
            ["list"],
            ["info"],
            ["info", "cpu"],
            ["kernels", "cpu:0"],
            ["layer", golden(MODEL), "--tokens", "2", "--mode", "decode"],
            ["report"],
            ["bench", "layer", *TINY],
            ["bench", "layer", *TINY, "--format", "csv"],
            ["bench", "layer", *TINY, "--batch", "1"],
            ["bench", "core", *TINY],
            ["bench", "core", *TINY, "--batch", "1,3", "--format", "md"],
            ["--version"],
            ["--help"],
            ["layer", "--help"],
            ["bench", "--help"],
            ["bench", "layer", "--help"],
            ["bench", "core", "--help"],
            ["bench", "launch", "--repeats", "2"],
            ["bench", "launch", "--repeats", "1", "--format", "csv"],
            ["bench", "launch", "--repeats", "1", "--format", "md"],
            ["bench", "launch", "--help"],
        ):
            with self.subTest(arguments=arguments):
                self.assertNotEqual(self.check_ok(*arguments).stdout, "")


class CheckFailed(ProbeTest):
    def tightened(self):
        """The golden cases with a bound that no bf16 result can meet."""
        header, data = read_safetensors(golden(MODEL) / "cases.safetensors")
        header["__metadata__"]["bounds.random_17"] = "1e-9 1e-9 1e-9 1e-9"
        write_safetensors(self.folder / "cases.safetensors", header, data)
        return self.folder / "cases.safetensors"

    def test_only_a_failed_check_is_1(self):
        arguments = ["layer", golden(MODEL), "--cases", self.tightened(), "--mode", "decode"]
        text = probe(*arguments)
        self.assertEqual(text.returncode, 1, text.stderr)
        self.assertRegex(text.stdout.splitlines()[-1], r"^FAIL \(\d+ of \d+ checks\)$")
        document = self.check_json(*arguments, exit_code=1)
        self.assertIs(document["pass"], False)
        failed = [row["case"] for row in document["results"] if not row["pass"]]
        self.assertEqual(failed, ["random_17"])

    def test_a_wrong_truth_fails(self):
        header, data = read_safetensors(golden(MODEL) / "cases.safetensors")
        start, end = header["random_17.recurrent_out"]["data_offsets"]
        data = data[:start] + bytes(end - start) + data[end:]
        write_safetensors(self.folder / "cases.safetensors", header, data)
        arguments = ["layer", golden(MODEL), "--cases", self.folder / "cases.safetensors", "--mode", "prefill"]
        document = self.check_json(*arguments, exit_code=1)
        self.assertEqual([row["case"] for row in document["results"] if not row["pass"]], ["random_17"])


class Usage(ProbeTest):
    def test_usage(self):
        model = golden(MODEL)
        for arguments in (
            ["list", "--no-such-flag"],
            ["list", "surplus"],
            ["list", "--format", "xml"],
            ["list", "--output", ""],
            ["list", "--kernel-set"],
            ["info", "cpu:x"],
            ["info", "cpu:"],
            ["info", "cpu:-1"],
            ["info", ":0"],
            ["info", "cpu:99999999999"],
            ["kernels", "--set", "cpu"],
            ["kernels", "--target", "x86-64"],
            ["kernels", "cpu:0", "--set", "cpu", "--target", "x86-64"],
            ["layer"],
            ["layer", model, "--geometry", "kimi-linear"],
            ["layer", "--geometry", "no-such-geometry"],
            ["layer", "--geometry", "kimi-linear", "--layer", "0"],
            ["layer", "--geometry", "kimi-linear", "--cases", model / "cases.safetensors"],
            ["layer", model, "--mode", "backwards"],
            ["layer", model, "--route", "scenic"],
            ["layer", model, "--gemm", "borrowed"],
            ["layer", model, "--gemm", "service", "--route", "reference"],
            ["layer", model, "--device", "gpu zero"],
            ["layer", model, "--device", ""],
            ["layer", model, "--tokens", "0"],
            ["layer", model, "--tokens", "-1"],
            ["layer", model, "--tokens", "1.5"],
            ["layer", model, "--tokens", "4294967296"],
            ["layer", model, "--tokens", "1", "--mode", "prefill_split"],
            ["layer", model, "--seed", "18446744073709551616"],
            ["layer", model, "--layer", "first"],
            ["layer", model, "--cases", model / "cases.safetensors", "--tokens", "3"],
            ["layer", model, "--cases", model / "cases.safetensors", "--seed", "3"],
            ["layer", model, "--cases", model / "cases.safetensors", "--sample-rows", "3"],
            ["layer", model, "--sample-rows", "0"],
            ["layer", model, "--sample-rows", "some"],
            ["layer", model, "--sample-rows", ""],
            ["report", "--mode", "all"],
        ):
            with self.subTest(arguments=arguments):
                if arguments[:2] == ["list", "--format"] or arguments[-1] == "--kernel-set":
                    self.assertEqual(probe(*arguments).returncode, 2)
                else:
                    self.check_error(2, "usage", *arguments)

    def test_usage_of_bench(self):
        for arguments in (
            ["--geometry", "no-such-geometry"],
            ["--geometry", "kimi-linear,no-such-geometry"],
            ["--geometry", "2,64"],
            ["--geometry", "2,96,128"],
            ["--geometry", "0,64,128"],
            ["--mode", "prefill_split"],
            ["--mode", "decode", "--tokens", "2"],
            ["--tokens", "0"],
            ["--tokens", "16,"],
            ["--repeats", "0"],
            ["--repeats", "1.5"],
            ["--seed", "-1"],
            ["--route", "scenic"],
            ["--gemm", "borrowed"],
            ["--device", "gpu zero"],
            ["--batch", "4"],
            ["--batch", "0"],
            ["surplus"],
        ):
            for what in ("layer", "core"):
                with self.subTest(what=what, arguments=arguments):
                    self.check_error(2, "usage", "bench", what, *arguments, command=f"bench {what}")
        arguments = ["bench", "layer", "--mode", "decode", "--batch", "1,4"]
        self.check_error(2, "usage", *arguments, says=["--batch", "4", "bench core"], command="bench layer")
        for arguments in (["--batch", "1,4"], ["--batch", "4", "--mode", "prefill"]):
            self.check_error(2, "usage", "bench", "core", *arguments, says=["--mode decode"], command="bench core")
        for batch in ("0", "65536", "x", "1,", ""):
            arguments = ["bench", "core", "--mode", "decode", "--batch", batch]
            self.check_error(2, "usage", *arguments, says=["--batch"], command="bench core")
        for arguments in (["--repeats", "0"], ["--geometry", "2,64,128"], ["--batch", "1"], ["--graph"], ["--device", "x y"]):
            with self.subTest(arguments=arguments):
                self.check_error(2, "usage", "bench", "launch", *arguments, command="bench launch")
        self.check_error(2, "usage", "bench", says=["layer", "core", "launch"])
        self.check_error(2, "usage", "bench", "frobnicate", says=["frobnicate"])
        self.assertEqual(probe("bench", "layer", *TINY, "--format", "xml").returncode, 2)
        for arguments in (["list", "--format", "csv"], ["--format", "md", "list"], ["layer", "--format", "csv"]):
            self.assertEqual(probe(*arguments).returncode, 2)

    def test_no_verb_and_an_unknown_one(self):
        for arguments in ([], ["frobnicate"], ["--no-such-flag"]):
            with self.subTest(arguments=arguments):
                result = probe(*arguments, "--format", "json")
                self.assertEqual(result.returncode, 2)
                document = json.loads(result.stdout)
                self.assertIsNone(document["command"])
                self.assertEqual(document["error"]["code"], "usage")
        self.assertIn("frobnicate", probe("frobnicate").stderr)
        self.assertIn("--help", probe("frobnicate").stderr)


class DriverAndDevice(ProbeTest):
    def test_an_unknown_backend_is_3(self):
        for arguments in (
            ["info", "nosuch:0"],
            ["kernels", "nosuch"],
            ["kernels", "--set", "nosuch", "--target", "t"],
            ["layer", golden(MODEL), "--device", "nosuch:0"],
        ):
            with self.subTest(arguments=arguments):
                self.check_error(3, "driver_missing", *arguments, says=["nosuch", "cpu"])
        for what in ("layer", "core"):
            arguments = ["bench", what, *TINY, "--device", "nosuch:0"]
            self.check_error(3, "driver_missing", *arguments, says=["nosuch", "cpu"], command=f"bench {what}")
        arguments = ["bench", "launch", "--device", "nosuch:0"]
        self.check_error(3, "driver_missing", *arguments, says=["nosuch", "cpu"], command="bench launch")

    def test_an_index_out_of_range_is_4(self):
        for arguments in (["info", "cpu:99"], ["kernels", "cpu:99"], ["layer", golden(MODEL), "--device", "cpu:99"]):
            with self.subTest(arguments=arguments):
                self.check_error(4, "no_device", *arguments, says=["99"])
        arguments = ["bench", "layer", *TINY, "--device", "cpu:99"]
        self.check_error(4, "no_device", *arguments, says=["99"], command="bench layer")


class Input(ProbeTest):
    """refusals_test.py has the many ways in which input can be bad."""

    def test_bad_input_is_5(self):
        self.check_error(5, "io_error", "layer", self.folder / "absent", says=["absent"])
        self.check_error(5, "io_error", "list", "--kernel-set", self.folder / "absent", says=["absent"])
        self.check_error(5, "kernel_not_found", "kernels", "--without", "nosuch", says=["nosuch"])
        self.check_error(5, "no_matching_image", "kernels", "--set", "cpu", "--target", "nosuch", says=["nosuch"])
        for what in ("layer", "core"):
            for name in ("recurrent", "nosuch"):
                arguments = ["bench", what, *TINY, "--without", name]
                self.check_error(5, "kernel_not_found", *arguments, says=[name], command=f"bench {what}")


class DeviceFailure(ProbeTest):
    def test_too_little_device_memory_is_6(self):
        arguments = ["layer", "--geometry", "kimi-k3", "--tokens", "4294967295", "--mode", "prefill"]
        self.check_error(6, "out_of_device_memory", *arguments)

    def test_a_benchmark_says_in_its_row_what_does_not_fit(self):
        arguments = ["bench", "layer", "--geometry", "2,64,128", "--mode", "prefill", "--tokens", "4294967295,4",
                     "--repeats", "1"]
        document = self.check_json(*arguments, exit_code=6)
        too_long, short = document["results"]
        self.assertEqual((too_long["error"]["code"], too_long["error"]["exit"]), ("out_of_device_memory", 6))
        memory = too_long["memory"]
        self.assertGreater(memory["needed"], memory["free"])
        for bytes_ in memory.values():
            self.assertIn(str(bytes_), too_long["error"]["message"])
        self.assertIsNone(too_long["median_us"])
        self.assertIsNone(short["error"])
        self.assertIs(document["pass"], False)


class AnythingElse(ProbeTest):
    def test_a_result_that_cannot_be_written_is_70(self):
        result = probe("list", "--output", self.folder / "absent" / "file")
        self.assertEqual((result.returncode, result.stdout), (70, ""))
        self.assertIn("io_error", result.stderr)
        if pathlib.Path("/dev/full").exists():
            for format_ in ("text", "json"):
                with open("/dev/full", "w", encoding="utf-8") as full:
                    self.assertEqual(probe("list", "--format", format_, stdout=full).returncode, 70)
                self.assertEqual(probe("list", "--output", "/dev/full", "--format", format_).returncode, 70)


if __name__ == "__main__":
    main()
