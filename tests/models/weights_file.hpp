// Safetensors files taken apart, changed and put together again.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models::test {

/// The bytes of a safetensors file.
std::string file_of(std::string_view header, std::string_view data);

/// The header and the data of a folder's model.safetensors.
struct WeightsFile {
  boost::json::object header;
  std::string data;

  explicit WeightsFile(const std::string& folder);
  std::string bytes() const;

  std::vector<std::string> names() const; ///< Of all tensors.
  std::vector<std::int64_t> shape(const std::string& name) const;
  std::string_view tensor(const std::string& name) const;
  /// A tensor's bytes, to be changed where they are.
  char* at(const std::string& name);
  void rename(const std::string& from, const std::string& to);
  /// Puts a tensor in the place of one of this name, where there is one.
  void put(const std::string& name, const char* dtype, const std::vector<std::int64_t>& shape,
           std::string_view bytes);
  void remove(const std::string& name);
};

} // namespace paceline::models::test
