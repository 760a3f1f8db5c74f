// The GGUF files of a model: one, or several parts.
#pragma once

#include "models/checkpoint/files.hpp"
#include "models/checkpoint/gguf.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// The files of one model, mapped and checked when they are opened. Immutable. Threads: all members
/// from any.
class GgufFiles {
public:
  /// path: the file, or the first of its parts; the others lie beside it.
  static Result<std::shared_ptr<const GgufFiles>> open(const std::string& path);

  const std::string& path() const { return files_.front().path(); }
  std::vector<std::string> paths() const; ///< Paths of all parts, in order.

  /// Returns the value of a key of the first part, which has all that describes the model. Null:
  /// there is no such key.
  const GgufValue* find(std::string_view key) const;
  /// These return the value of a key, or none if it is absent; an error if it is of another type.
  Result<std::optional<std::int64_t>> integer(std::string_view key) const;
  Result<std::optional<double>> number(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string>> string(std::string_view key) const;
  const Gguf::Metadata& metadata() const { return metadata_; }

  struct Tensor {
    GgufTensor stored;
    std::size_t file = 0; ///< Index of `paths`.
  };
  using Tensors = std::map<std::string, Tensor, std::less<>>;
  const Tensors& tensors() const { return tensors_; }
  const GgufTensor* tensor(std::string_view name) const;
  /// Returns the file of a tensor that is there.
  const MappedFile& file_of(std::string_view tensor) const;

  /// Makes an error that names the file: the one of `tensor`, or the first.
  tl::unexpected<Error> wrong(std::string_view what, std::string_view tensor = {},
                              ErrorCode code = ErrorCode::corrupt,
                              std::string_view hint = "") const;

private:
  Result<void> add(const std::string& path, std::size_t number, std::size_t of);
  template <class T, class F>
  Result<std::optional<T>> value(std::string_view key, const char* kind, const F& get) const;

  std::vector<MappedFile> files_;
  Gguf::Metadata metadata_;
  Tensors tensors_;
};

/// Returns whether the path's name, or the first bytes of the file there, say that it is a GGUF
/// file: some programs keep files under digests.
bool is_gguf(const std::string& path);

/// A part of a model, by its file name: "name-00002-of-00003.gguf" is part 2 of 3. gguf_part
/// returns none for a name of another kind.
struct GgufPart {
  std::string stem; ///< "name"
  int number = 0;   ///< Counted from 1.
  int of = 0;
};
std::optional<GgufPart> gguf_part(std::string_view path);

/// Returns the GGUF models in a folder, sorted; the first part of a model stands for all. What
/// projects pictures is no model.
std::vector<std::filesystem::path> gguf_models(const std::filesystem::path& folder);

} // namespace paceline::models
