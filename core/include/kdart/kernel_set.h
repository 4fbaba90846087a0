// Kernel sets: a manifest plus images for one backend; choosing an image; a set loaded on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kdart/contract.h"
#include "kdart/export.h"
#include "kdart/types.h"

namespace kdart {

class GpuBackend;

// One argument as the manifest states it.
struct ManifestArg {
  std::string name;
  ArgKind kind = ArgKind::u32;
  std::uint32_t offset = 0, size = 0;
};

// What one image says of one kernel.
struct ImageKernel {
  std::string name = {};
  std::string symbol = {};
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t min_threads = 0;                       // per block; 0: any
  std::uint32_t max_threads = 0;                       // per block; 0: the device's limit
  std::uint32_t subgroup = 0;                          // the subgroup size it is written for; 0: any
  std::optional<std::uint32_t> registers = {};         // per thread, where the compiler reports them
  std::map<std::string, std::uint32_t> tunables = {};  // e.g. v_per_block
};

enum class ImageFormat : std::uint8_t { elf_shared, cubin, ptx, code_object, spirv };
[[nodiscard]] KDART_API std::string_view to_string(ImageFormat format) noexcept;

struct ManifestImage {
  std::string file;    // a plain file name: no '/', not "." or ".."
  std::string target;  // "x86-64-v3", "sm_90a", "gfx942:xnack-", ..
  ImageFormat format = ImageFormat::elf_shared;
  std::uint32_t ptx_isa = 0;              // ptx: 10 * major + minor; else 0
  std::vector<std::string> capabilities;  // spirv
  std::uint64_t bytes = 0;
  std::string sha256;  // lower-case hex of the whole file
  std::vector<ImageKernel> kernels;
};

struct ManifestKernel {
  std::string name;
  std::vector<ManifestArg> args;
  std::uint32_t argument_bytes = 0;
};

// manifest.json, schema 1. A plain value. As JSON:
//
//   {"schema": 1, "set": "kda", "version": "0.1.0", "backend": "cpu", "toolchain": {"g++": "12.2.0"},
//    "kernels": [{"name": "gate", "args": [{"name": "f", "kind": "ptr", "offset": 0, "size": 8}, ..],
//                 "argument_bytes": 44}, ..],
//    "images": [{"file": "kda.x86-64-v3.so", "target": "x86-64-v3", "format": "elf_shared", "bytes": 41232,
//                "sha256": "<64 lower-case hex digits>",
//                "kernels": [{"name": "gate", "symbol": "gate", "static_shared_bytes": 0}, ..]}, ..]}
//
// Optional, and 0 or empty when left out: an image's "ptx_isa" (ptx needs it, others must not have it) and "capabilities"
// (spirv alone may have it); an image kernel's "min_threads", "max_threads", "subgroup", "registers", "tunables"
// ({"v_per_block": 32}). Every other field is needed, and no other may stand there.
struct Manifest {
  static constexpr std::uint32_t schema = 1;
  std::string set;                               // "kda"
  std::string version;                           // of the set
  std::string backend;                           // "cpu"
  std::map<std::string, std::string> toolchain;  // tool -> version
  std::vector<ManifestKernel> kernels;
  std::vector<ManifestImage> images;

  // Reads untrusted text. Throws Error: unsupported_version for a newer schema, invalid_argument naming the field, what
  // was found and what was expected for anything else that is off (unknown fields, duplicate names, a file name with a
  // path in it, a malformed hash, an image that names a kernel the manifest does not describe).
  [[nodiscard]] static KDART_API Manifest parse(std::string_view text, std::string_view name);
};

// What selection looks at. Filled by each backend from its driver; in tests from a table.
struct DeviceFacts {
  std::string backend = {};                    // sets for another backend are refused
  std::string target = {};                     // "x86-64-v3", "sm_90", "gfx942:sramecc+:xnack-"
  std::uint32_t ptx_isa = 0;                   // NVIDIA: the newest the driver takes, 10 * major + minor
  std::string driver_version = {};             // as DeviceInfo has it, for reasons
  std::vector<std::string> capabilities = {};  // SPIR-V
  std::uint64_t shared_memory_per_block = 0;
  std::uint32_t threads_per_block = 0;
  std::uint32_t subgroup_min = 0, subgroup_max = 0;   // SPIR-V
  std::uint32_t argument_bytes = max_argument_bytes;  // SPIR-V: the largest argument block that a launch can carry
};

struct RejectedImage {
  std::string file, target;
  std::string reason;  // one sentence
};

struct Selection {
  std::optional<std::size_t> image;  // index into manifest.images; none when nothing fits
  std::vector<RejectedImage> rejected;
};

// Chooses the best image for a device: a pure function (design: selection is tested with no device at hand). A fitting
// image that a better one beat is listed as rejected too.
//   CPU     same architecture, level (x86-64 < -v2 < -v3 < -v4) not above the device's; the highest level wins
//   NVIDIA  sm_NNa for exactly this device, then sm_NNf and plain sm_NN of the same major and a minor not above the
//           device's (the highest minor, f before plain), then PTX (sm_NN or compute_NN, same suffixes) that is neither for
//           a newer device nor of a newer ISA than the driver takes
//   AMD     same processor, xnack and sramecc each unstated or as the device has it, the image that states more first;
//           then generic targets (gfx9-4-generic) that cover the processor
//   SPIR-V  target spvM.N not above the device's; every capability, subgroup size, static shared memory, smallest block
//           and argument block within the device's; the image that asks for more capabilities first
[[nodiscard]] KDART_API Selection select_image(const DeviceFacts& facts, const Manifest& manifest);

// A manifest with access to its images. Immutable, shareable between threads. Refers to its contract, which has to
// outlive it and every set loaded from it; generated contracts are static.
class KernelSet {
 public:
  // The set built into this library for `backend`. Throws Error(no_matching_image) when it was left out of the build.
  [[nodiscard]] static KDART_API std::shared_ptr<const KernelSet> embedded(const Contract& contract,
                                                                           std::string_view backend);
  // A folder with manifest.json and image files. Reads the manifest now and an image when it is loaded. Throws Error:
  // io_error, and what Manifest::parse throws.
  [[nodiscard]] static KDART_API std::shared_ptr<const KernelSet> from_directory(const Contract& contract,
                                                                                 const std::filesystem::path& folder);

  virtual ~KernelSet() = default;
  KernelSet(const KernelSet&) = delete;
  KernelSet& operator=(const KernelSet&) = delete;

  [[nodiscard]] const Contract& contract() const noexcept { return *contract_; }
  [[nodiscard]] const Manifest& manifest() const noexcept { return manifest_; }
  [[nodiscard]] const std::string& origin() const noexcept { return origin_; }  // "embedded" or the folder

  // One image's bytes, checked: io_error when the file cannot be read, corrupt_image when length or SHA-256 differ from
  // the manifest. Nothing is ever returned unchecked.
  [[nodiscard]] KDART_API std::vector<std::byte> read_image(const ManifestImage& image) const;

 protected:
  KernelSet(const Contract& contract, Manifest manifest, std::string origin);
  [[nodiscard]] virtual std::vector<std::byte> do_read(const ManifestImage& image) const = 0;

 private:
  const Contract* contract_;
  Manifest manifest_;
  std::string origin_;
};

// A kernel of a loaded set, as launch checks see it.
struct KernelInfo {
  std::string name;
  const ContractKernel* contract = nullptr;  // argument names and kinds
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t min_threads = 0;  // per block
  std::uint32_t max_threads = 0;  // per block, device limit included
  std::map<std::string, std::uint32_t> tunables;
};

// A set loaded on one device by GpuBackend::load. Its kernels live as long as it does; destroying it waits for launched
// work. Keeps the backend alive. Immutable: any number of threads may use it.
class LoadedSet {
 public:
  LoadedSet(const LoadedSet&) = delete;
  LoadedSet& operator=(const LoadedSet&) = delete;
  KDART_API ~LoadedSet();

  // Throws Error(kernel_not_found) with near names.
  [[nodiscard]] KDART_API KernelHandle get(std::string_view kernel) const;
  // KernelHandle{} when the set has no such kernel.
  [[nodiscard]] KDART_API KernelHandle find(std::string_view kernel) const noexcept;
  // The kernel's tunable, or `fallback` when the manifest has none. Throws kernel_not_found.
  [[nodiscard]] KDART_API std::uint32_t tunable(std::string_view kernel, std::string_view name,
                                                std::uint32_t fallback) const;
  [[nodiscard]] const KernelSet& set() const noexcept { return *set_; }
  [[nodiscard]] const ManifestImage& image() const noexcept { return set_->manifest().images[*selection_.image]; }
  [[nodiscard]] const Selection& selection() const noexcept { return selection_; }
  // Contract kernels that the loaded image lacks, in contract order.
  [[nodiscard]] KDART_API std::vector<std::string_view> missing() const;

 private:
  friend class GpuBackend;
  LoadedSet(std::shared_ptr<GpuBackend> backend, std::shared_ptr<const KernelSet> set, Selection selection);

  std::shared_ptr<GpuBackend> backend_;
  std::shared_ptr<const KernelSet> set_;
  Selection selection_;
  std::uint64_t module_ = 0;
  bool loaded_ = false;  // module_ is to be unloaded
  std::map<std::string, KernelHandle, std::less<>> kernels_;
  std::vector<KernelHandle> handles_;  // the same, to be given back
};

}  // namespace kdart
