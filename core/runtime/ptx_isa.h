// PTX ISA versions and the drivers that take them, from NVIDIA's release notes of PTX and of the toolkits.
#pragma once

#include <array>
#include <cstdint>

namespace kdart::detail {

struct PtxIsa {
  std::uint32_t isa;     // 10 * major + minor
  int cuda;              // the CUDA version that brought it: 1000 * major + 10 * minor
  std::uint32_t driver;  // that version's first driver branch (Linux)
};

// In ascending order.
inline constexpr std::array<PtxIsa, 23> ptx_isas{{
    {70, 11000, 450}, {71, 11010, 455}, {72, 11020, 460}, {73, 11030, 465}, {74, 11040, 470}, {75, 11050, 495},
    {76, 11060, 510}, {77, 11070, 515}, {78, 11080, 520}, {80, 12000, 525}, {81, 12010, 530}, {82, 12020, 535},
    {83, 12030, 545}, {84, 12040, 550}, {85, 12050, 555}, {86, 12070, 565}, {87, 12080, 570}, {88, 12090, 575},
    {90, 13000, 580}, {91, 13010, 590}, {92, 13020, 595}, {93, 13030, 610}, {94, 13040, 615},
}};

// The newest PTX ISA that a driver of this CUDA version takes; 0 before the table. A version later than the table counts as
// its last.
[[nodiscard]] constexpr std::uint32_t ptx_isa_of_cuda(int cuda_version) noexcept {
  std::uint32_t newest = 0;
  for (const PtxIsa& entry : ptx_isas) {
    if (entry.cuda <= cuda_version) newest = entry.isa;
  }
  return newest;
}

}  // namespace kdart::detail
