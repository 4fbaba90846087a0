// Where a kernel set comes from: this library, or a folder.
#include "kdart/kernel_set.h"

#include <algorithm>
#include <utility>

#include "core/runtime/embedded_kernel_set.h"
#include "core/runtime/fail.h"
#include "core/runtime/host_file.h"
#include "core/runtime/messages.h"
#include "core/runtime/registry_table.h"
#include "core/runtime/sha256.h"

namespace kdart {

using detail::fail;
using detail::quote;

namespace {

constexpr std::uint64_t max_manifest_bytes = std::uint64_t{16} << 20;

class EmbeddedSet final : public KernelSet {
 public:
  EmbeddedSet(const Contract& contract, Manifest manifest, const detail::EmbeddedKernelSet& files)
      : KernelSet(contract, std::move(manifest), "embedded"), files_(&files) {}

 protected:
  std::vector<std::byte> do_read(const ManifestImage& image) const override {
    for (const detail::EmbeddedFile& file : files_->image_files()) {
      if (file.name != image.file) continue;
      const auto bytes = file.bytes();
      return {bytes.begin(), bytes.end()};
    }
    fail(ErrorCode::io_error, "the embedded kernel set {} for {} has no file {}", files_->set, files_->backend,
         quote(image.file));
  }

 private:
  const detail::EmbeddedKernelSet* files_;
};

class DirectorySet final : public KernelSet {
 public:
  DirectorySet(const Contract& contract, Manifest manifest, std::filesystem::path folder)
      : KernelSet(contract, std::move(manifest), folder.string()), folder_(std::move(folder)) {}

 protected:
  std::vector<std::byte> do_read(const ManifestImage& image) const override {
    const detail::MappedFile file = detail::map_file(folder_ / image.file);
    return {file.bytes.begin(), file.bytes.end()};
  }

 private:
  std::filesystem::path folder_;
};

void require_set(const Contract& contract, const Manifest& manifest, std::string_view name) {
  if (manifest.set == contract.set) return;
  fail(ErrorCode::invalid_argument, "{}: the field 'set' is {}, and the contract is for '{}'", name,
       quote(manifest.set), contract.set);
}

std::string embedded_text() {
  std::string text;
  for (const detail::EmbeddedKernelSet* set : detail::embedded_kernel_sets()) {
    text += detail::format("{}{} for {}", text.empty() ? "" : ", ", set->set, set->backend);
  }
  return text.empty() ? "none" : text;
}

}  // namespace

KernelSet::KernelSet(const Contract& contract, Manifest manifest, std::string origin)
    : contract_(&contract), manifest_(std::move(manifest)), origin_(std::move(origin)) {}

std::shared_ptr<const KernelSet> KernelSet::embedded(const Contract& contract, std::string_view backend) {
  for (const detail::EmbeddedKernelSet* files : detail::embedded_kernel_sets()) {
    if (files->set != contract.set || files->backend != backend) continue;
    const std::string name = detail::format("the embedded kernel set {} for {}", files->set, files->backend);
    Manifest manifest = Manifest::parse(files->manifest.text(), name);
    require_set(contract, manifest, name);
    if (manifest.backend != backend) {
      fail(ErrorCode::invalid_argument, "{}: the field 'backend' is {}", name, quote(manifest.backend));
    }
    return std::make_shared<EmbeddedSet>(contract, std::move(manifest), *files);
  }
  fail(ErrorCode::no_matching_image, "the kernel set '{}' for the backend {} is not in this build of kdart; it has: {}",
       contract.set, quote(backend), embedded_text());
}

std::shared_ptr<const KernelSet> KernelSet::from_directory(const Contract& contract,
                                                           const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "manifest.json";
  const detail::MappedFile file = detail::map_file(path);
  if (file.bytes.size() > max_manifest_bytes) {
    fail(ErrorCode::invalid_argument, "{}: {} bytes are more than the {} that a manifest can have", path.string(),
         file.bytes.size(), max_manifest_bytes);
  }
  const std::string text(static_cast<const char*>(static_cast<const void*>(file.bytes.data())), file.bytes.size());
  Manifest manifest = Manifest::parse(text, path.string());
  require_set(contract, manifest, path.string());
  return std::make_shared<DirectorySet>(contract, std::move(manifest), folder);
}

std::vector<std::byte> KernelSet::read_image(const ManifestImage& image) const {
  std::vector<std::byte> bytes = do_read(image);
  if (bytes.size() != image.bytes) {
    fail(ErrorCode::corrupt_image, "image {} of the kernel set '{}' ({}) has {} bytes, and the manifest says {}",
         quote(image.file), manifest_.set, origin_, bytes.size(), image.bytes);
  }
  if (const std::string found = detail::sha256_hex(bytes); found != image.sha256) {
    fail(ErrorCode::corrupt_image, "image {} of the kernel set '{}' ({}) has the SHA-256 {}, and the manifest says {}",
         quote(image.file), manifest_.set, origin_, found, image.sha256);
  }
  return bytes;
}

}  // namespace kdart
