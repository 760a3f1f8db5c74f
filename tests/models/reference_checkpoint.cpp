#include "tests/models/reference_checkpoint.hpp"

#include "base/bf16.hpp"

#include <algorithm>
#include <bit>
#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <fmt/format.h>

namespace paceline::models::test {
namespace json = boost::json;
namespace {

/// offset + scale * u, u uniform in [-1, 1) with 24 bits: SplitMix64 of FNV-1a(name) and the index.
class Generator {
public:
  Generator(std::string_view name, float scale, float offset) : scale_(scale), offset_(offset) {
    for (const char c : name)
      state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  float next() {
    std::uint64_t x = state_ += 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    x ^= x >> 31;
    const float u = float(std::int64_t(x >> 40) - (1 << 23)) * 0x1p-23f;
    return offset_ + scale_ * u;
  }

private:
  std::uint64_t state_ = 0xcbf29ce484222325;
  float scale_;
  float offset_;
};

/// Rounds to nearest even; the tests' numbers are far from f16's largest.
std::uint16_t to_f16(float x) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (x == 0)
    return sign;
  int exponent = 0;
  const float size = std::frexp(std::fabs(x), &exponent); // size * 2^exponent, size in [0.5, 1)
  const int unit = std::max(exponent - 11, -24);          // A half's last bit counts 2^unit.
  const auto steps = unsigned(std::nearbyint(std::ldexp(size, exponent - unit)));
  return std::uint16_t(sign | (steps + (unsigned(unit + 24) << 10)));
}

void append(std::string& out, gpu::DType dtype, float x) {
  const std::uint32_t wide = std::bit_cast<std::uint32_t>(x);
  const std::uint16_t narrow = dtype == gpu::DType::bf16 ? base::to_bf16(x).bits : to_f16(x);
  if (dtype == gpu::DType::f32)
    out.append(reinterpret_cast<const char*>(&wide), 4);
  else
    out.append(reinterpret_cast<const char*>(&narrow), 2);
}

/// A safetensors file as it grows.
struct File {
  json::object header;
  std::string data;

  void add(const json::array& tensor, gpu::DType dtype) {
    const std::string name(tensor[0].as_string());
    Generator random(name, tensor[2].to_number<float>(), tensor[3].to_number<float>());
    std::size_t count = 1;
    for (const json::value& n : tensor[1].as_array())
      count *= std::size_t(n.as_int64());
    const std::size_t begin = data.size();
    for (std::size_t i = 0; i < count; ++i)
      append(data, dtype, random.next());
    const char* names[] = {"F32", "F16", "BF16"};
    header[name] = {
        {"dtype", names[int(dtype)]}, {"shape", tensor[1]}, {"data_offsets", {begin, data.size()}}};
  }
  void add_bytes(const char* name, const char* dtype, std::int64_t size, std::string_view bytes) {
    const std::size_t begin = data.size();
    data += bytes;
    header[name] = {
        {"dtype", dtype}, {"shape", json::array{size}}, {"data_offsets", {begin, data.size()}}};
  }
  /// A head's ids as its target has them: offsets, and a mask.
  void add_ids(const json::array& ids, std::int64_t known) {
    std::string offsets;
    std::string mask(std::size_t(known), '\0');
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::int64_t offset = ids[i].as_int64() - std::int64_t(i);
      offsets.append(reinterpret_cast<const char*>(&offset), sizeof offset);
      mask[std::size_t(ids[i].as_int64())] = 1;
    }
    add_bytes("d2t", "I64", std::int64_t(ids.size()), offsets);
    add_bytes("t2d", "BOOL", known, mask);
  }
  /// The target's ids in the order of an assistant's clusters.
  void add_order(const json::array& ids) {
    std::string bytes;
    for (const json::value& id : ids) {
      const std::int64_t number = id.as_int64();
      bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    add_bytes("masked_embedding.token_ordering", "I64", std::int64_t(ids.size()), bytes);
  }
  std::string bytes() const {
    const std::string text = json::serialize(header);
    const std::uint64_t size = text.size();
    return std::string(reinterpret_cast<const char*>(&size), 8) + text + data;
  }
};

} // namespace

const json::array& reference_cases() {
  static const json::value file = data("checkpoints.json");
  return file.as_array();
}

const json::object& reference_case(std::string_view name) {
  for (const json::value& entry : reference_cases())
    if (entry.at("name").as_string() == name)
      return entry.as_object();
  FAIL("no reference case " << name);
  throw std::logic_error("unreachable");
}

const json::array& mtp_cases() {
  static const json::value file = data("mtp.json");
  return file.as_array();
}

json::object case_with_mtp(std::string_view name) {
  json::object entry = reference_case(name);
  for (const json::value& block : mtp_cases()) {
    if (block.at("target").as_string() != name)
      continue;
    for (const auto& [key, value] : block.at("config").as_object())
      entry["config"].as_object()[key] = value;
    for (const json::value& tensor : block.at("tensors").as_array())
      entry["tensors"].as_array().push_back(tensor);
    return entry;
  }
  FAIL("no block drafts for " << name);
  throw std::logic_error("unreachable");
}

const json::array& assistant_cases() {
  static const json::value file = data("gemma4_assistant.json");
  return file.as_array();
}

void write_checkpoint(const TemporaryFolder& folder, const json::object& entry, gpu::DType dtype) {
  const json::array& tensors = entry.at("tensors").as_array();
  std::vector<File> files(std::size_t(entry.at("shards").as_int64()));
  json::object map;
  const auto name_of = [&](std::size_t i) {
    return files.size() == 1 ? std::string("model.safetensors")
                             : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t file = i * files.size() / tensors.size();
    files[file].add(tensors[i].as_array(), dtype);
    map[tensors[i].as_array()[0].as_string()] = name_of(file);
  }
  if (const json::value* ids = entry.if_contains("target_ids")) {
    const json::object& config = entry.at("config").as_object();
    const json::value* layer = config.if_contains("transformer_layer_config");
    files.front().add_ids(ids->as_array(),
                          (layer ? *layer : entry.at("config")).at("vocab_size").as_int64());
  }
  if (const json::value* order = entry.if_contains("order"); order && order->is_array())
    files.front().add_order(order->get_array());
  folder.write("config.json", json::serialize(entry.at("config")));
  for (std::size_t i = 0; i < files.size(); ++i)
    folder.write(name_of(i), files[i].bytes());
  if (files.size() > 1)
    folder.write("model.safetensors.index.json",
                 json::serialize(json::object{{"metadata", json::object()}, {"weight_map", map}}));
}

Result<std::shared_ptr<const Model>> load_reference(const json::object& entry, gpu::DType dtype,
                                                    const json::object& change) {
  const TemporaryFolder folder;
  write_checkpoint(folder, entry, dtype);
  json::object config = entry.at("config").as_object();
  for (const auto& [key, value] : change)
    config[key] = value;
  folder.write("config.json", json::serialize(config));
  return test::load(folder.path(), device(), {});
}

} // namespace paceline::models::test
