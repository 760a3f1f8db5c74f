#include "gpu/sim/data_sheet.hpp"

#include <algorithm>

namespace paceline::gpu::sim {

DataSheet DataSheet::reached() const {
  DataSheet part = *this;
  part.operations_per_second *= peak_share;
  part.bytes_per_second *= memory_share;
  return part;
}

const std::vector<DataSheet>& data_sheets() {
  static const std::vector<DataSheet> known{
      {"a100", 312e12, 2'039e9, 80e9, "NVIDIA's data sheet, A100 SXM, 80 GB"},
      {"a100-pcie", 312e12, 1'935e9, 80e9, "NVIDIA's data sheet, A100 PCIe, 80 GB"},
      {"a6000", 154.8e12, 768e9, 48e9, "NVIDIA's data sheet, RTX A6000"},
      {"h100", 989e12, 3'350e9, 80e9, "NVIDIA's data sheet, H100 SXM, without sparsity"},
      {"h200", 989e12, 4'800e9, 141e9, "NVIDIA's data sheet, H200 SXM, without sparsity"},
  };
  return known;
}

const DataSheet* find_data_sheet(std::string_view name) {
  const auto found = std::ranges::find(data_sheets(), name,
                                       [](const auto& s) { return std::string_view(s.name); });
  return found == data_sheets().end() ? nullptr : &*found;
}

} // namespace paceline::gpu::sim
