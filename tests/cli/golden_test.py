"""The golden data through kda-probe on the CPU: every model, case and mode, with all kernels and without the optional ones."""

from support import ProbeTest, golden_models, main, read_safetensors

MODES = ["decode", "decode_k", "prefill", "prefill_split"]


class Golden(ProbeTest):
    def check_model(self, model, *arguments):
        cases = model / "cases.safetensors"
        document = self.check_json("layer", model, "--cases", cases, "--device", "cpu:0", "--mode", "all", *arguments)
        self.assertIs(document["pass"], True)
        header, _ = read_safetensors(cases)
        lengths = {name.split(".")[0]: tensor["shape"][0] for name, tensor in header.items() if name.endswith(".hidden")}
        expected = {(case, mode) for case in lengths for mode in MODES
                    if mode != "prefill_split" or lengths[case] > 1}
        self.assertEqual({(row["case"], row["mode"]) for row in document["results"]}, expected)
        for row in document["results"]:
            self.assertIs(row["bits_equal_decode"], True if row["mode"] == "decode_k" else None)
        return document

    def test_there_are_seven(self):
        self.assertEqual(len(golden_models()), 7)

    def test_all_kernels(self):
        for model in golden_models():
            with self.subTest(model=model.name):
                document = self.check_model(model)
                self.assertEqual(document["recurrent_kernel"], "recurrent_smem")
                for row in document["results"]:
                    decodes = row["mode"] in ("decode", "decode_k")
                    self.assertIs(row["bits_equal_recurrent"], True if decodes else None)

    def test_without_the_optional_kernels(self):
        for model in golden_models():
            with self.subTest(model=model.name):
                document = self.check_model(model, "--without", "recurrent_smem,dense_gemv_bf16_batchm")
                self.assertEqual(document["recurrent_kernel"], "recurrent")
                for row in document["results"]:
                    self.assertIsNone(row["bits_equal_recurrent"])


if __name__ == "__main__":
    main()
