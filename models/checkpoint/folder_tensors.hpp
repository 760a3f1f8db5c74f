// The tensors of a checkpoint folder, by the names that its family gives them.
#pragma once

#include "models/checkpoint/tensor_files.hpp"
#include "models/checkpoint/tensor_source.hpp"
#include "models/families.hpp"

#include <string>

namespace paceline::models {

class FolderTensors final : public TensorSource {
public:
  FolderTensors(TensorFiles files, const BlockTensors& names);

  bool has(TensorRole role) const override;
  gpu::DType dtype() const override { return files_.dtype(); }
  Result<gpu::HostMatrix> matrix(TensorKey key, int rows, int cols) override {
    return files_.matrix(name_of(key) + ".weight", rows, cols);
  }
  Result<std::vector<float>> bias(TensorKey key, int size) override {
    return files_.vector(name_of(key) + ".bias", size);
  }
  Result<std::vector<float>> norm(TensorKey key, int size) override {
    return files_.vector(name_of(key) + ".weight", size);
  }
  void release(TensorKey key) override { files_.release(name_of(key) + ".weight"); }
  void ignore(TensorKey key) override { files_.ignore(name_of(key) + ".weight"); }
  Result<void> check_all_taken() const override { return files_.check_all_taken(); }
  std::uint64_t parameters() const override { return files_.parameters(); }
  std::vector<Stored> tensors() const override;

private:
  std::string name_of(TensorKey key) const;
  const char* name_in_block(TensorRole role) const;

  TensorFiles files_;
  BlockTensors names_;
};

} // namespace paceline::models
