"""Bad input is refused with exit code 5 and a message that names what is wrong, on the way through the whole program."""

import json

from support import ProbeTest, golden, main, read_safetensors, write_safetensors

PREFIX = "model.layers.0.self_attn."


class Model(ProbeTest):
    def setUp(self):
        super().setUp()
        self.model = self.copy_model()
        self.weights = self.model / "model.safetensors"

    def check_refused(self, code, *says):
        return self.check_error(5, code, "layer", self.model, says=says)

    def change_header(self, change):
        header, data = read_safetensors(self.weights)
        data = change(header, data) or data
        write_safetensors(self.weights, header, data)

    def change_config(self, change):
        path = self.model / "config.json"
        config = json.loads(path.read_text())
        change(config)
        path.write_text(json.dumps(config))

    def test_the_copy_itself_is_fine(self):
        self.check_ok("layer", self.model, "--tokens", "1", "--mode", "decode")

    def test_no_config(self):
        (self.model / "config.json").unlink()
        self.check_refused("io_error", "config.json")

    def test_no_weights(self):
        self.weights.unlink()
        self.check_refused("io_error", "safetensors")

    def test_config_that_is_no_json(self):
        (self.model / "config.json").write_text("{")
        self.check_refused("bad_checkpoint", "config.json")

    def test_unknown_model_type(self):
        self.change_config(lambda config: config.update(model_type="mystery"))
        self.check_refused("bad_checkpoint", "model_type", "mystery")

    def test_gate_lower_bound_out_of_range(self):
        self.change_config(lambda config: config["linear_attn_config"].update(gate_lower_bound=3))
        self.check_refused("bad_checkpoint", "gate_lower_bound", "3")

    def test_head_dim_that_no_kernel_handles(self):
        self.change_config(lambda config: config["linear_attn_config"].update(head_dim=96))
        self.check_refused("unsupported", "head_dim", "96")

    def test_a_gemm_service_that_the_device_has_not(self):
        self.check_error(5, "unsupported", "layer", self.model, "--gemm", "service", says=["GEMM service", "cpu:0"])

    def test_a_layer_that_is_no_kda_layer(self):
        self.check_error(5, "invalid_argument", "layer", self.model, "--layer", "7", says=["7"])

    def test_truncated_file(self):
        self.weights.write_bytes(self.weights.read_bytes()[:-100])
        self.check_refused("bad_checkpoint", "model.safetensors")

    def test_empty_file(self):
        self.weights.write_bytes(b"")
        self.check_refused("bad_checkpoint", "model.safetensors")

    def test_header_longer_than_the_file(self):
        content = self.weights.read_bytes()
        self.weights.write_bytes((1 << 62).to_bytes(8, "little") + content[8:])
        self.check_refused("bad_checkpoint", "model.safetensors")

    def test_missing_tensor(self):
        def change(header, _):
            # Renamed out of the layer, so that the file itself stays sound.
            header["elsewhere"] = header.pop(PREFIX + "dt_bias")

        self.change_header(change)
        self.check_refused("bad_checkpoint", "dt_bias")

    def test_unknown_tensor(self):
        def change(header, data):
            header[PREFIX + "surprise"] = {"dtype": "F32", "shape": [1], "data_offsets": [len(data), len(data) + 4]}
            return data + bytes(4)

        self.change_header(change)
        self.check_refused("bad_checkpoint", "surprise")

    def test_quantised_tensor(self):
        def change(header, _):
            tensor = header[PREFIX + "q_proj.weight"]
            tensor["dtype"], tensor["shape"] = "U8", [tensor["shape"][0], 2 * tensor["shape"][1]]

        self.change_header(change)
        self.check_refused("bad_checkpoint", "q_proj", "U8")

    def test_wrong_dtype(self):
        def change(header, _):
            header[PREFIX + "q_proj.weight"]["dtype"] = "F16"

        self.change_header(change)
        self.check_refused("bad_checkpoint", "q_proj", "F16", "BF16")

    def test_wrong_shape(self):
        def change(header, _):
            header[PREFIX + "q_proj.weight"]["shape"].reverse()

        self.change_header(change)
        self.check_refused("bad_checkpoint", "q_proj")

    def test_overlapping_tensors(self):
        def change(header, _):
            header[PREFIX + "k_proj.weight"]["data_offsets"] = header[PREFIX + "q_proj.weight"]["data_offsets"]

        self.change_header(change)
        self.check_refused("bad_checkpoint", "model.safetensors")


class Cases(ProbeTest):
    def setUp(self):
        super().setUp()
        self.model = golden("kimi-linear-mini")
        self.file = self.folder / "cases.safetensors"
        self.header, self.data = read_safetensors(self.model / "cases.safetensors")

    def check_refused(self, code, *says):
        write_safetensors(self.file, self.header, self.data)
        return self.check_error(5, code, "layer", self.model, "--cases", self.file, says=says)

    def test_absent(self):
        arguments = ["layer", self.model, "--cases", self.folder / "absent.safetensors"]
        self.check_error(5, "io_error", *arguments, says=["absent"])

    def test_of_another_geometry(self):
        arguments = ["layer", self.model, "--cases", golden("head64-mini") / "cases.safetensors"]
        self.check_error(5, "bad_checkpoint", *arguments)

    def test_missing_member(self):
        self.header["elsewhere"] = self.header.pop("random_17.out")
        self.check_refused("bad_checkpoint")

    def test_bounds_that_are_no_bounds(self):
        for bounds in ("", "0.1 0.1 0.1", "0.1 0.1 0.1 nan", "0.1 0.1 0.1 -1", "0 0.1 0.1 0.1"):
            with self.subTest(bounds=bounds):
                self.header["__metadata__"]["bounds.random_17"] = bounds
                self.check_refused("bad_checkpoint", "random_17")

    def test_only_cases_too_short_for_the_mode(self):
        one = {name: value for name, value in self.header.items() if name.startswith("random_1.")}
        data = b""
        for tensor in one.values():
            start, end = tensor["data_offsets"]
            tensor["data_offsets"] = [len(data), len(data) + end - start]
            data += self.data[start:end]
        write_safetensors(self.file, one, data)
        arguments = ["layer", self.model, "--cases", self.file]
        self.check_ok(*arguments)
        self.check_error(5, "invalid_argument", *arguments, "--mode", "prefill_split", says=["prefill_split"])


class KernelSet(ProbeTest):
    def setUp(self):
        super().setUp()
        self.set = self.copy_kernel_set()
        self.manifest = json.loads((self.set / "manifest.json").read_text())

    def check_refused(self, code, *says, verb=("layer", "--geometry", "kimi-linear", "--tokens", "1")):
        (self.set / "manifest.json").write_text(json.dumps(self.manifest))
        return self.check_error(5, code, *verb, "--kernel-set", self.set, says=says)

    def test_the_copy_itself_is_fine(self):
        self.check_ok("kernels", "--kernel-set", self.set)

    def test_no_manifest(self):
        (self.set / "manifest.json").unlink()
        self.check_error(5, "io_error", "kernels", "--kernel-set", self.set, says=["manifest.json"])

    def test_a_newer_schema(self):
        self.manifest["schema"] = 2
        self.check_refused("unsupported_version", "2")

    def test_a_path_in_a_file_name(self):
        self.manifest["images"][0]["file"] = "../" + self.manifest["images"][0]["file"]
        self.check_refused("invalid_argument", "../")

    def test_a_wrong_hash(self):
        for image in self.manifest["images"]:
            image["sha256"] = "0" * 64
        self.check_refused("corrupt_image")

    def test_a_changed_image(self):
        for image in self.manifest["images"]:
            path = self.set / image["file"]
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(bytes(content))
        self.check_refused("corrupt_image")

    def test_an_absent_image(self):
        for image in self.manifest["images"]:
            (self.set / image["file"]).unlink()
        self.check_refused("io_error")

    def test_a_set_for_another_backend(self):
        self.manifest["backend"] = "other"
        self.check_refused("no_matching_image", "other")

    def test_every_verb_refuses_it(self):
        self.manifest["schema"] = 2
        for verb in (["list"], ["info"], ["kernels"], ["kernels", "--set", "cpu", "--target", "x86-64"], ["report"]):
            with self.subTest(verb=verb):
                self.check_refused("unsupported_version", verb=verb)


class Kernels(ProbeTest):
    def test_a_required_kernel_cannot_be_left_out(self):
        model = golden("kimi-linear-mini")
        self.check_error(5, "kernel_not_found", "layer", model, "--without", "recurrent", says=["recurrent"])

    def test_a_name_that_no_contract_has(self):
        model = golden("kimi-linear-mini")
        for verb in (["layer", model], ["kernels"]):
            for names in ("nosuch", "recurrent_smem,nosuch"):
                self.check_error(5, "kernel_not_found", *verb, "--without", names, says=["nosuch"])


if __name__ == "__main__":
    main()
