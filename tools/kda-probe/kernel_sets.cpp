#include "kernel_sets.h"

#include "exit_codes.h"
#include "kdart/kda_kernels.h"

namespace kdart::probe {

std::shared_ptr<const KernelSet> find_kernel_set(std::string_view backend, const KernelSetDirectory& directory) {
  return during(Stage::reading_input, [&] {
    return directory ? KernelSet::from_directory(kernels::kda_contract(), *directory)
                     : KernelSet::embedded(kernels::kda_contract(), backend);
  });
}

void check_kernel_set(const KernelSetDirectory& directory) {
  if (directory) static_cast<void>(find_kernel_set({}, directory));
}

KernelSetName name_of(const KernelSet& set) {
  const Manifest& manifest = set.manifest();
  return {manifest.set, manifest.version, manifest.backend, set.origin()};
}

SetChoice choose(const KernelSet& set, const DeviceFacts& facts) {
  Selection selection = select_image(facts, set.manifest());
  SetChoice choice{name_of(set), std::nullopt, std::move(selection.rejected)};
  if (selection.image) {
    const ManifestImage& image = set.manifest().images[*selection.image];
    choice.image = ImageName{image.file, image.target};
  }
  return choice;
}

}  // namespace kdart::probe
