#include "tests/models/weights_file.hpp"

#include "tests/support/files.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstring>

namespace paceline::models::test {
namespace json = boost::json;
namespace {

std::size_t offset(const json::object& header, const std::string& name, std::size_t which) {
  return header.at(name).at("data_offsets").at(which).to_number<std::size_t>();
}

} // namespace

std::string file_of(std::string_view header, std::string_view data) {
  std::string out;
  for (int i = 0; i < 8; ++i)
    out += char(header.size() >> (8 * i) & 0xFF);
  return out.append(header).append(data);
}

WeightsFile::WeightsFile(const std::string& folder) {
  const std::string file = testing::read_file(folder + "/model.safetensors");
  std::uint64_t size = 0;
  std::memcpy(&size, file.data(), 8);
  header = json::parse(file.substr(8, size)).as_object();
  data = file.substr(8 + size);
}

std::string WeightsFile::bytes() const {
  return file_of(json::serialize(header), data);
}

std::vector<std::string> WeightsFile::names() const {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : header)
    if (name != "__metadata__")
      out.emplace_back(name);
  return out;
}

std::vector<std::int64_t> WeightsFile::shape(const std::string& name) const {
  std::vector<std::int64_t> out;
  for (const json::value& size : header.at(name).at("shape").as_array())
    out.push_back(size.to_number<std::int64_t>());
  return out;
}

std::string_view WeightsFile::tensor(const std::string& name) const {
  const std::size_t begin = offset(header, name, 0);
  return std::string_view(data).substr(begin, offset(header, name, 1) - begin);
}

char* WeightsFile::at(const std::string& name) {
  return data.data() + offset(header, name, 0);
}

void WeightsFile::rename(const std::string& from, const std::string& to) {
  const json::value entry = header.at(from);
  header.erase(from);
  header[to] = entry;
}

void WeightsFile::put(const std::string& name, const char* dtype,
                      const std::vector<std::int64_t>& shape, std::string_view bytes) {
  const std::string kept(bytes); // It may be a part of what is moved.
  if (header.contains(name))
    remove(name);
  header[name] = json::object{{"dtype", dtype},
                              {"shape", json::array(shape.begin(), shape.end())},
                              {"data_offsets", {data.size(), data.size() + kept.size()}}};
  data += kept;
}

void WeightsFile::remove(const std::string& name) {
  const std::size_t begin = offset(header, name, 0);
  const std::size_t size = offset(header, name, 1) - begin;
  data.erase(begin, size);
  header.erase(name);
  for (const std::string& other : names())
    if (offset(header, other, 0) > begin)
      header.at(other).as_object()["data_offsets"] =
          json::array{offset(header, other, 0) - size, offset(header, other, 1) - size};
}

} // namespace paceline::models::test
