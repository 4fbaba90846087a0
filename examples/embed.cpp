// Runs one KDA layer of a checkpoint: a prompt in one call, then a token.
//
//   embed [MODEL_DIR [DEVICE]]
#include <kdart/checkpoint.h>
#include <kdart/layer.h>
#include <kdart/owned.h>
#include <kdart/registry.h>

#include <cstdio>
#include <exception>
#include <vector>

int main(int argc, char** argv) try {
  auto gpu = kdart::open_device(argc > 2 ? argv[2] : "cpu:0");
  auto model = kdart::Checkpoint::open(argc > 1 ? argv[1] : "tests/data/golden/glm-5.3-flash-mini");

  kdart::KdaLayer layer(gpu, model.kda_layer(model.config().kda_layers.at(0)));  // uploads the weights
  kdart::KdaWorkspace ws(gpu, layer.config(), /*max_tokens=*/64);                // all scratch there will ever be
  kdart::KdaState state(gpu, layer.config());                                    // of one sequence, zeroed
  kdart::OwnedStream stream(gpu);

  // Hidden states come from the engine: bf16 [tokens, hidden_size] in device memory. Here they are made up.
  const std::uint32_t prompt = 50;
  const std::size_t width = layer.config().hidden_size;
  std::vector<kdart::bf16> hidden((prompt + 1) * width);
  for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] = kdart::to_bf16(static_cast<float>(i % 17) / 8 - 1);
  kdart::Buffer rows(gpu, hidden.size() * sizeof(kdart::bf16));
  gpu->copy_h2d(rows.get(), hidden.data(), rows.bytes());
  kdart::DevicePtr next = rows.get().offset(prompt * width * sizeof(kdart::bf16));

  layer.prefill(rows.get(), prompt, state, ws, stream.get());
  layer.decode(next, state, ws, stream.get());  // the result is at ws.final_out(), unless you pass a place for it
  gpu->synchronize(stream.get());

  std::vector<kdart::bf16> out(width);
  gpu->copy_d2h(out.data(), ws.final_out(), width * sizeof(kdart::bf16));
  const auto first = static_cast<double>(kdart::to_float(out[0]));
  std::printf("%s: %zu values, the first is %g\n", gpu->info().name.c_str(), width, first);
} catch (const std::exception& error) {  // a kdart::Error, whose message says what to do
  std::fprintf(stderr, "embed: %s\n", error.what());
  return 1;
}
