"""The JSON documents of kda-probe, as docs/cli.md states them."""

import csv
import io
import json

from support import ProbeTest, golden, main, probe, settings

MODEL = "kimi-linear-mini"
MODES = ["decode", "decode_k", "prefill", "prefill_split"]
OPTIONAL = ["dense_gemv_bf16_batchm", "recurrent_smem"]
ROW = ["case", "mode", "tokens", "route", "out_rel_l2", "recurrent_rel_l2", "conv_max_excess", "finite",
       "bits_equal_decode", "bits_equal_recurrent", "bounds", "pass", "seconds_per_token",
       "out_sha256", "state_sha256"]


class Layer(ProbeTest):
    def test_the_document(self):
        document = self.check_json("layer", golden(MODEL), "--seed", "5")
        self.assertEqual(list(document), ["schema", "command", "device", "model", "layer", "kernel_set",
                                          "recurrent_kernel", "prefill_gemm", "sample_rows", "truth_seconds", "results",
                                          "pass"])
        self.assertEqual(document["prefill_gemm"], {"service": 0, "own": 7})
        self.assertEqual(document["command"], "layer")
        self.assertEqual(document["device"], "cpu:0")
        self.assertEqual(document["model"], str(golden(MODEL)))
        self.assertEqual(document["layer"], 0)
        self.assertEqual(list(document["kernel_set"]), ["name", "version"])
        self.assertIs(document["pass"], True)
        self.assertEqual([row["mode"] for row in document["results"]], MODES)
        for row in document["results"]:
            self.assertEqual(list(row), ROW)
            self.assertEqual(list(row["bounds"]), ["out", "recurrent"])
            self.assertEqual(row["tokens"], 17)
            self.assertEqual(row["route"], "reference")
            self.assertGreater(row["out_rel_l2"], 0)
            self.assertLessEqual(row["out_rel_l2"], row["bounds"]["out"])
            self.assertLessEqual(row["recurrent_rel_l2"], row["bounds"]["recurrent"])
            self.assertLessEqual(row["conv_max_excess"], 0)
            self.assertGreater(row["seconds_per_token"], 0)

    def test_hashes_are_those_of_the_bits(self):
        rows = self.check_json("layer", golden(MODEL), "--seed", "5")["results"]
        for row in rows:
            self.assertRegex(row["out_sha256"], "^[0-9a-f]{64}$")
            self.assertRegex(row["state_sha256"], "^[0-9a-f]{64}$")
        decode, decode_k, prefill, split = [(row["out_sha256"], row["state_sha256"]) for row in rows]
        self.assertEqual(decode, decode_k)
        self.assertNotEqual(decode, prefill)
        self.assertNotEqual(split, prefill)  # four runs behind one another
        again = self.check_json("layer", golden(MODEL), "--seed", "5")["results"]
        self.assertEqual([row["state_sha256"] for row in again], [row["state_sha256"] for row in rows])

    def test_a_sample_of_the_rows(self):
        arguments = ["layer", "--geometry", "2,64,128", "--tokens", "600", "--mode", "prefill", "--seed", "4"]
        whole = self.check_json(*arguments)
        self.assertIsNone(whole["sample_rows"])
        self.assertGreater(whole["truth_seconds"], 0)
        document = self.check_json(*arguments, "--sample-rows", "20")
        rows = document["sample_rows"]
        self.assertEqual((len(rows), len(set(rows)), rows), (20, 20, sorted(rows)))
        self.assertTrue({0, 15, 16, 31, 32, 591, 592, 599} <= set(rows))
        sampled, all_of_it = document["results"][0], whole["results"][0]
        self.assertNotEqual(sampled["out_rel_l2"], all_of_it["out_rel_l2"])
        for member in ("recurrent_rel_l2", "conv_max_excess", "out_sha256", "state_sha256", "pass"):
            self.assertEqual(sampled[member], all_of_it[member])
        every = self.check_json(*arguments, "--sample-rows", "601")
        self.assertEqual(every["sample_rows"], list(range(600)))
        self.assertEqual(every["results"][0]["out_rel_l2"], all_of_it["out_rel_l2"])

    def test_where_bits_are_compared(self):
        rows = self.check_json("layer", golden(MODEL))["results"]
        self.assertEqual([row["bits_equal_decode"] for row in rows], [None, True, None, None])
        self.assertEqual([row["bits_equal_recurrent"] for row in rows], [True, True, None, None])

    def test_one_recurrent_kernel_alone_is_not_compared(self):
        document = self.check_json("layer", golden(MODEL), "--without", ",".join(OPTIONAL))
        self.assertEqual(document["recurrent_kernel"], "recurrent")
        self.assertEqual([row["bits_equal_recurrent"] for row in document["results"]], [None] * 4)
        self.assertEqual([row["bits_equal_decode"] for row in document["results"]], [None, True, None, None])

    def test_decode_k_alone_is_still_compared_with_decode(self):
        rows = self.check_json("layer", golden(MODEL), "--mode", "decode_k")["results"]
        self.assertEqual([(row["mode"], row["bits_equal_decode"]) for row in rows], [("decode_k", True)])

    def test_one_token_has_no_split(self):
        rows = self.check_json("layer", golden(MODEL), "--tokens", "1")["results"]
        self.assertEqual([row["mode"] for row in rows], MODES[:3])

    def test_the_seed_decides(self):
        figures = [[row["out_rel_l2"] for row in self.check_json("layer", golden(MODEL), "--seed", seed)["results"]]
                   for seed in (1, 1, 2)]
        self.assertEqual(figures[0], figures[1])
        self.assertNotEqual(figures[0], figures[2])

    def test_cpu_is_cpu_0(self):
        arguments = ["layer", golden(MODEL), "--mode", "decode", "--tokens", "1"]
        self.assertEqual(self.check_json(*arguments, "--device", "cpu")["device"], "cpu:0")

    def test_a_folder_gives_the_bits_of_the_embedded_set(self):
        arguments = ["layer", golden(MODEL), "--cases", golden(MODEL) / "cases.safetensors"]
        embedded = self.check_json(*arguments)
        folder = self.check_json(*arguments, "--kernel-set", settings.kernel_set)
        for document in (embedded, folder):
            for row in document["results"]:
                del row["seconds_per_token"]
        self.assertEqual(embedded, folder)


class BenchLayer(ProbeTest):
    ARGUMENTS = ["bench", "layer", "--geometry", "2,64,128", "--repeats", "2"]

    def test_the_document(self):
        document = self.check_json(*self.ARGUMENTS, "--tokens", "5", "--graph", "--seed", "3")
        self.assertEqual(list(document), ["schema", "command", "device", "kernel_set", "seed", "repeats",
                                          "copy_bandwidth", "results", "pass"])
        self.assertEqual(document["command"], "bench layer")
        self.assertEqual(document["device"], self.check_json("info")["device"])
        self.assertEqual(document["kernel_set"], self.check_json("info")["kernel_set"])
        self.assertEqual((document["seed"], document["repeats"], document["pass"]), (3, 2, True))
        copy = document["copy_bandwidth"]
        self.assertEqual(list(copy), ["bytes_per_second", "buffer_bytes", "median_us", "min_us", "samples",
                                      "calls_per_sample", "samples_us"])
        self.assertAlmostEqual(copy["bytes_per_second"] * copy["median_us"] / 2e6 / copy["buffer_bytes"], 1)
        self.assertEqual(
            [(row["mode"], row["tokens"], row["graph"]) for row in document["results"]],
            [(mode, tokens, graph) for mode, tokens in (("decode", 1), ("decode_k", 4), ("prefill", 5))
             for graph in (False, True)])
        for row in document["results"]:
            self.check_row(row, copy["bytes_per_second"])

    def check_row(self, row, bandwidth):
        self.assertEqual(list(row), [
            "geometry", "mode", "tokens", "batch", "graph", "call", "route", "recurrent_kernel", "prefill_gemm", "median_us", "min_us",
            "us_per_token", "p90_over_median", "wall_us", "submit_us", "samples", "calls_per_sample", "bytes", "flops",
            "floor_us", "over_floor", "state_bytes_per_second", "rotation", "memory", "samples_us", "samples_wall_us",
            "error"])
        self.assertEqual((row["batch"], row["call"]), (1, row["mode"]))
        self.assertEqual(row["prefill_gemm"], {"service": 0, "own": 7} if row["mode"] == "prefill" else None)
        self.assertAlmostEqual(row["state_bytes_per_second"] * row["median_us"] / 1e6 / row["bytes"]["state"], 1)
        self.assertEqual((row["geometry"], row["route"], row["error"]), ("2,64,128", "reference", None))
        samples = row["samples_us"]
        self.assertEqual((row["samples"], len(samples), len(row["samples_wall_us"])), (2, 2, 2))
        self.assertEqual(row["min_us"], min(samples))
        self.assertAlmostEqual(row["median_us"] / (sum(samples) / 2), 1)
        self.assertAlmostEqual(row["us_per_token"] * row["tokens"] / row["median_us"], 1)
        self.assertAlmostEqual(row["p90_over_median"] * row["median_us"] / max(samples), 1)
        self.assertGreaterEqual(row["wall_us"], row["submit_us"])
        self.assertGreaterEqual(row["calls_per_sample"], 1)
        self.assertEqual(list(row["bytes"]), ["weights", "state", "activations", "total"])
        self.assertEqual(row["bytes"]["activations"], 2 * row["tokens"] * 128 * 2)
        self.assertEqual(row["bytes"]["state"], 2 * 4 * (2 * 64 * 64 + 3 * 128 * 4))
        self.assertEqual(row["bytes"]["total"], sum(list(row["bytes"].values())[:3]))
        self.assertAlmostEqual(row["floor_us"] * bandwidth / row["bytes"]["total"] / 1e6, 1)
        self.assertAlmostEqual(row["over_floor"] * row["floor_us"] / row["median_us"], 1)
        self.assertGreater(row["flops"], 0)

    def test_the_table_in_other_formats(self):
        arguments = [*self.ARGUMENTS, "--mode", "prefill", "--tokens", "5,6"]
        rows = list(csv.DictReader(io.StringIO(self.check_ok(*arguments, "--format", "csv").stdout)))
        self.assertEqual([(row["device"], row["geometry"], row["tokens"]) for row in rows],
                         [("cpu:0", "2,64,128", "5"), ("cpu:0", "2,64,128", "6")])
        for row in rows:
            self.assertGreater(float(row["median_us"]), 0)
            self.assertEqual((row["samples"], row["error"]), ("2", ""))
        markdown = self.check_ok("--format", "md", *arguments).stdout.splitlines()
        self.assertEqual(len([line for line in markdown if line.startswith("| 2,64,128 | prefill | ")]), 2)
        text = self.check_ok(*arguments).stdout.splitlines()
        self.assertRegex(text[-1], r"^2,64,128  prefill +6 +1  no +reference +prefill +own +[0-9.]+ ")

    def test_geometries_by_name_and_number(self):
        arguments = ["bench", "layer", "--mode", "decode", "--repeats", "1", "--geometry", "2,64,128,4,64,64",
                     "--geometry", "2,64,64"]
        rows = self.check_json(*arguments)["results"]
        self.assertEqual([row["geometry"] for row in rows], ["2,64,128", "4,64,64", "2,64,64"])

    def test_a_kernel_left_out_is_not_used(self):
        arguments = [*self.ARGUMENTS, "--mode", "decode"]
        self.assertEqual(self.check_json(*arguments)["results"][0]["recurrent_kernel"], "recurrent_smem")
        rows = self.check_json(*arguments, "--without", ",".join(OPTIONAL))["results"]
        self.assertEqual(rows[0]["recurrent_kernel"], "recurrent")


class BenchLaunch(ProbeTest):
    def test_the_document(self):
        document = self.check_json("bench", "launch", "--repeats", "3")
        self.assertEqual(list(document), ["schema", "command", "device", "kernel_set", "repeats", "kernel",
                                          "launches_per_sample", "results", "graph", "pass"])
        self.assertEqual((document["command"], document["kernel"], document["repeats"]), ("bench launch", "fill", 3))
        self.assertEqual(document["device"], self.check_json("info")["device"])
        (row,) = document["results"]
        self.assertEqual(list(row), ["context", "kdart_us", "bare_us", "ratio", "samples", "kdart_samples_us",
                                     "bare_samples_us", "bare_missing", "error"])
        self.assertEqual((row["context"], row["bare_us"], row["ratio"], row["bare_samples_us"]), (None, None, None, []))
        self.assertIn("cpu:0", row["bare_missing"])
        self.assertEqual(row["kdart_us"], sorted(row["kdart_samples_us"])[1])
        self.assertGreater(row["kdart_us"], 0)
        graph = document["graph"]
        self.assertEqual(list(graph), ["kernels", "us_per_kernel", "samples", "graphs_per_sample", "samples_us", "error"])
        self.assertEqual((graph["samples"], len(graph["samples_us"]), graph["error"]), (3, 3, None))
        self.assertAlmostEqual(graph["us_per_kernel"] * graph["kernels"] / sorted(graph["samples_us"])[1], 1)

    def test_the_table_in_other_formats(self):
        arguments = ["bench", "launch", "--repeats", "2"]
        rows = list(csv.DictReader(io.StringIO(self.check_ok(*arguments, "--format", "csv").stdout)))
        self.assertEqual([(row["device"], row["context"], row["samples"]) for row in rows],
                         [("cpu:0", "", "2"), ("cpu:0", "graph", "2")])
        self.assertIn("cpu:0", rows[0]["bare_missing"])
        for row in rows:
            self.assertGreater(float(row["kdart_us"]), 0)
        self.assertRegex(self.check_ok(*arguments, "--format", "md").stdout, r"(?m)^\| - \| [0-9.]+ \| [0-9.]+ \| - \| - \| - \| 2 \|$")
        self.assertIn("us per kernel", self.check_ok(*arguments).stdout.splitlines()[-1])


class BenchCore(ProbeTest):
    ARGUMENTS = ["bench", "core", "--geometry", "2,64,128", "--repeats", "2"]

    def test_every_mode(self):
        document = self.check_json(*self.ARGUMENTS, "--tokens", "20")
        self.assertEqual(document["command"], "bench core")
        self.assertEqual(
            [(row["mode"], row["call"], row["tokens"], row["batch"]) for row in document["results"]],
            [("decode", "decode_k_core", 1, 1), ("decode_k", "decode_k_core", 4, 1), ("prefill", "prefill_core", 20, 1)])
        for row in document["results"]:
            self.assertIsNone(row["error"])
            self.assertEqual(row["bytes"]["state"], 2 * 4 * (2 * 64 * 64 + 3 * 128 * 4))
            self.assertEqual(row["bytes"]["activations"], row["tokens"] * 2 * (6 * 128 + 2))
            self.assertEqual(row["flops"], row["tokens"] * (7 * 2 * 64 * 64 + 2 * 3 * 128 * 4))
            self.assertGreater(row["over_floor"], 0)

    def test_batches(self):
        arguments = [*self.ARGUMENTS, "--mode", "decode", "--batch", "1,5", "--batch", "16", "--graph"]
        for without, kernel in ([], "recurrent_smem"), (["--without", "recurrent_smem"], "recurrent"):
            rows = self.check_json(*arguments, *without)["results"]
            self.assertEqual([(row["batch"], row["graph"]) for row in rows],
                             [(batch, graph) for batch in (1, 5, 16) for graph in (False, True)])
            for row in rows:
                self.assertEqual((row["call"], row["tokens"], row["error"]), (kernel, 1, None))
                self.assertEqual(row["bytes"]["state"], 2 * row["batch"] * 4 * 2 * 64 * 64)
                self.assertEqual(row["bytes"]["weights"], 0)
                rate = row["bytes"]["state"] / row["median_us"] * 1e6
                self.assertAlmostEqual(row["state_bytes_per_second"] / rate, 1)

    def test_the_table_in_other_formats(self):
        arguments = [*self.ARGUMENTS, "--mode", "decode", "--batch", "4"]
        rows = list(csv.DictReader(io.StringIO(self.check_ok(*arguments, "--format", "csv").stdout)))
        self.assertEqual([(row["batch"], row["call"], row["error"]) for row in rows], [("4", "recurrent_smem", "")])
        self.assertGreater(float(rows[0]["state_bytes_per_second"]), 0)
        self.assertIn("| 2,64,128 | decode | 1 | 4 | no |", self.check_ok(*arguments, "--format", "md").stdout)
        self.assertRegex(self.check_ok(*arguments).stdout.splitlines()[-1], r"^2,64,128  decode +1 +4  no ")


class Kernels(ProbeTest):
    def check_document(self, document):
        self.assertEqual(list(document), ["schema", "command", "set", "version", "backend", "origin", "target", "image",
                                          "rejected", "kernels", "missing"])
        self.assertEqual((document["set"], document["backend"]), ("kda", "cpu"))
        self.assertEqual(list(document["image"]), ["file", "target"])
        for image in document["rejected"]:
            self.assertEqual(list(image), ["file", "target", "reason"])
            self.assertNotEqual(image["reason"], "")
        for kernel in document["kernels"]:
            self.assertEqual(list(kernel), ["name", "registers", "shared_bytes", "argument_bytes"])
            self.assertGreater(kernel["argument_bytes"], 0)
        return [kernel["name"] for kernel in document["kernels"]]

    def test_a_device(self):
        document = self.check_json("kernels", "cpu:0")
        self.assertIn("recurrent_smem", self.check_document(document))
        self.assertEqual(document["missing"], [])

    def test_what_is_left_out_is_missing(self):
        full = self.check_json("kernels")
        less = self.check_json("kernels", "--without", ",".join(OPTIONAL))
        self.assertEqual(sorted(less["missing"]), OPTIONAL)
        self.assertEqual(sorted(self.check_document(less) + OPTIONAL), sorted(self.check_document(full)))

    def test_a_target_needs_no_device(self):
        target = self.check_json("kernels")["target"]
        document = self.check_json("kernels", "--set", "cpu", "--target", target)
        self.assertEqual(document, self.check_json("kernels"))

    def test_a_folder_says_where_it_is(self):
        document = self.check_json("kernels", "--kernel-set", settings.kernel_set)
        self.check_document(document)
        self.assertEqual(document["origin"], str(settings.kernel_set))


class ListInfoReport(ProbeTest):
    def test_list(self):
        document = self.check_json("list")
        backends = {backend["backend"]: backend for backend in document["backends"]}
        self.assertEqual(list(backends["cpu"]), ["backend", "driver_library", "devices", "error"])
        self.assertEqual([device["id"] for device in backends["cpu"]["devices"]], ["cpu:0"])
        self.assertIsNone(backends["cpu"]["error"])
        for name, backend in backends.items():
            if not backend["devices"]:
                self.assertEqual(list(backend["error"]), ["code", "message"], name)

    def test_info(self):
        document = self.check_json("info", "cpu:0")
        self.assertEqual(list(document), ["schema", "command", "device", "memory", "kernel_set"])
        self.assertEqual(document["device"]["id"], "cpu:0")
        self.assertEqual(document["kernel_set"]["name"], "kda")
        self.assertIsNotNone(document["kernel_set"]["image"])
        self.assertGreater(document["memory"]["total"], 0)

    def test_report(self):
        document = self.check_json("report")
        self.assertEqual(list(document), ["schema", "command", "kdart", "system", "backends", "kernel_sets", "devices",
                                          "pass"])
        version = probe("--version").stdout.strip()
        self.assertEqual(document["kdart"]["version"], version)
        device = document["devices"][0]
        self.assertEqual(device["id"], "cpu:0")
        self.assertEqual([row["mode"] for row in device["self_check"]["results"]], MODES)
        self.assertIs(document["pass"], True)
        for image in document["kernel_sets"][0]["images"]:
            self.assertRegex(image["sha256"], "^[0-9a-f]{64}$")

    def test_report_as_text_names_what_a_bug_report_needs(self):
        text = self.check_ok("report").stdout
        for word in ("kdart", "system", "processor", "kernel set", "image", "cpu:0", "self-check", "PASS"):
            self.assertIn(word, text)

    def test_version_and_help(self):
        version = self.check_json("--version")
        self.assertEqual(version["version"], probe("--version").stdout.strip())
        self.assertRegex(version["version"], r"^\d+\.\d+\.\d+$")
        self.assertIn("--geometry", self.check_json("layer", "--help")["help"])


class Output(ProbeTest):
    def test_a_result_goes_to_the_file_alone(self):
        file = self.folder / "result"
        for format_, arguments in (("text", ["list"]), ("json", ["kernels"]), ("json", ["--version"])):
            result = self.check_ok(*arguments, "--format", format_, "--output", file)
            self.assertEqual(result.stdout, "")
            self.assertEqual(file.read_text(), self.check_ok(*arguments, "--format", format_).stdout)

    def test_flags_may_stand_before_the_verb(self):
        self.assertEqual(json.loads(self.check_ok("--format", "json", "list").stdout)["command"], "list")
        self.assertEqual(json.loads(self.check_ok("--format=json", "list").stdout)["command"], "list")

    def test_an_error_goes_there_too_under_json(self):
        file = self.folder / "result"
        result = probe("info", "cpu:99", "--format", "json", "--output", file)
        self.assertEqual((result.returncode, result.stdout), (4, ""))
        self.assertEqual(json.loads(file.read_text())["error"]["exit"], 4)
        self.assertIn("no_device", result.stderr)

    def test_no_bar_and_no_talk_where_standard_error_is_no_terminal(self):
        self.assertEqual(self.check_ok("layer", golden(MODEL)).stderr, "")


if __name__ == "__main__":
    main()
