#include "models/checkpoint/safetensors.hpp"

#include "models/checkpoint/files.hpp"
#include "models/limits.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <string_view>

namespace paceline::models {
namespace json = boost::json;
namespace {

constexpr const char* damaged_hint = "the file is damaged; download it again";

/// An entry as the header spells it.
struct RawEntry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;
  bool has_shape = false;
};

/// Handles the header while it is parsed: no tree is built, so a hostile header costs no more
/// memory than its own size, and a repeated name is found.
class HeaderHandler {
public:
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);

  std::vector<RawEntry> entries;
  std::string problem; ///< The reason for which this handler stopped the parser, if it did.

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }

  bool on_object_begin(json::error_code& e) {
    if (array_ || depth_ == 2)
      return stop(e, "a value of " + where() + " is an object");
    if (entries.size() == limits::tensors_max)
      return stop(e, fmt::format("more than {} tensors", limits::tensors_max));
    if (++depth_ == 2 && !metadata_)
      entries.push_back({name_, {}, {}, {}, false});
    return true;
  }
  bool on_object_end(std::size_t, json::error_code&) {
    if (--depth_ == 1)
      metadata_ = false;
    return true;
  }

  bool on_array_begin(json::error_code& e) {
    if (depth_ != 2 || array_ || metadata_)
      return stop(e, "a list stands where none belongs");
    if (field_ == "shape") {
      array_ = &entries.back().shape;
      entries.back().has_shape = true;
    } else if (field_ == "data_offsets") {
      array_ = &entries.back().offsets;
    } else {
      return stop(e, fmt::format("{} has an unknown field {}", where(), text::shown(field_)));
    }
    if (!array_->empty())
      return stop(e, fmt::format("{} has {} twice", where(), field_));
    return true;
  }
  bool on_array_end(std::size_t, json::error_code&) {
    array_ = nullptr;
    return true;
  }

  bool on_key_part(json::string_view s, std::size_t, json::error_code&) {
    text_.append(s);
    return true;
  }
  bool on_key(json::string_view s, std::size_t, json::error_code&) {
    text_.append(s);
    (depth_ == 1 ? name_ : field_) = std::move(text_);
    text_.clear();
    metadata_ = depth_ == 1 ? name_ == "__metadata__" : metadata_;
    return true;
  }
  bool on_string_part(json::string_view s, std::size_t, json::error_code&) {
    text_.append(s);
    return true;
  }
  bool on_string(json::string_view s, std::size_t, json::error_code& e) {
    text_.append(s);
    const std::string text = std::move(text_);
    text_.clear();
    if (depth_ == 2 && metadata_)
      return true;
    if (depth_ != 2 || array_ || field_ != "dtype")
      return stop(e, "a string stands where none belongs, near " + where());
    if (!entries.back().dtype.empty())
      return stop(e, where() + " has dtype twice");
    entries.back().dtype = text;
    return true;
  }

  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_uint64(std::uint64_t u, json::string_view, json::error_code& e) { return number(u, e); }
  bool on_int64(std::int64_t i, json::string_view, json::error_code& e) {
    return i < 0 ? stop(e, where() + " holds a negative number") : number(std::uint64_t(i), e);
  }
  bool on_double(double, json::string_view, json::error_code& e) {
    return stop(e, where() + " holds a number that is no integer");
  }
  bool on_bool(bool, json::error_code& e) { return stop(e, where() + " holds a boolean"); }
  bool on_null(json::error_code& e) { return stop(e, where() + " holds null"); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

private:
  bool number(std::uint64_t value, json::error_code& e) {
    if (!array_)
      return stop(e, "a number stands where none belongs, near " + where());
    if (array_->size() == limits::tensor_rank_max)
      return stop(
          e, fmt::format("{} of {} is longer than {}", field_, where(), limits::tensor_rank_max));
    array_->push_back(value);
    return true;
  }
  bool stop(json::error_code& e, std::string what) {
    problem = std::move(what);
    e = json::error::syntax;
    return false;
  }
  std::string where() const {
    return name_.empty() ? "the header" : "tensor " + text::shown(name_);
  }

  int depth_ = 0;
  bool metadata_ = false;
  std::string name_;
  std::string field_;
  std::string text_;
  std::vector<std::uint64_t>* array_ = nullptr;
};

/// Makes errors that name the file, and the tensor if there is one.
struct Complaint {
  const std::string& path;
  tl::unexpected<Error> operator()(std::string what, const std::string& tensor = {},
                                   ErrorCode code = ErrorCode::corrupt) const {
    const std::string of = tensor.empty() ? "" : "tensor " + text::shown(tensor) + " ";
    return fail(code, text::shown_path(path) + ": " + of + std::move(what),
                code == ErrorCode::corrupt
                    ? damaged_hint
                    : "use a checkpoint of BF16, F16 or F32: of quantized weights the original");
  }
};

Result<std::string_view> header_text(std::span<const std::byte> file, const Complaint& wrong) {
  if (file.size() < 8)
    return wrong(fmt::format("{} bytes are too few for a safetensors file", file.size()));
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < 8; ++i)
    size |= std::uint64_t(file[i]) << (8 * i);
  if (size > limits::safetensors_header_bytes_max)
    return wrong(fmt::format("a header of {} bytes is longer than {}", size,
                             limits::safetensors_header_bytes_max));
  if (size > file.size() - 8)
    return wrong(
        fmt::format("a header of {} bytes does not fit in a file of {}", size, file.size()));
  return std::string_view(reinterpret_cast<const char*>(file.data()) + 8, std::size_t(size));
}

std::optional<StoredType> type_of(std::string_view name) {
  using enum StoredType;
  for (const StoredType type : {f32, f16, bf16, f8_e4m3, f8_e5m2, f8_e8m0, u8, i8, i64, boolean})
    if (name == to_string(type))
      return type;
  return {};
}

/// Returns shape[0] * shape[1] * ... * unit, if it fits.
std::optional<std::uint64_t> product(std::span<const std::uint64_t> shape, std::uint64_t unit) {
  std::uint64_t out = unit;
  for (const std::uint64_t n : shape) {
    if (n > std::uint64_t(std::numeric_limits<std::int32_t>::max()) ||
        __builtin_mul_overflow(out, n, &out))
      return {};
  }
  return out;
}

Result<TensorEntry> check_entry(const RawEntry& raw, std::span<const std::byte> data,
                                const Complaint& wrong) {
  if (raw.dtype.empty() || !raw.has_shape || raw.offsets.size() != 2)
    return wrong("lacks dtype, shape or data_offsets", raw.name);
  const auto type = type_of(raw.dtype);
  if (!type)
    return wrong("is of dtype " + text::shown(raw.dtype) + ", which is not known", raw.name,
                 ErrorCode::unsupported);
  const std::uint64_t begin = raw.offsets[0];
  const std::uint64_t end = raw.offsets[1];
  if (begin > end || end > data.size())
    return wrong(fmt::format("lies at {} to {}, beyond the file's {} bytes of data", begin, end,
                             data.size()),
                 raw.name);
  const auto bytes = product(raw.shape, size_of(*type));
  if (!bytes || *bytes != end - begin)
    return wrong(fmt::format("has {} bytes, which is not what its shape [{}] of {} takes",
                             end - begin, fmt::join(raw.shape, ", "), raw.dtype),
                 raw.name);
  TensorEntry entry;
  entry.name = raw.name;
  entry.type = *type;
  entry.shape.assign(raw.shape.begin(), raw.shape.end());
  entry.bytes = data.subspan(begin, end - begin);
  return entry;
}

/// Checks that every byte of data belongs to exactly one tensor.
Result<void> check_cover(std::span<const TensorEntry> entries, std::span<const std::byte> data,
                         const Complaint& wrong) {
  std::vector<const TensorEntry*> order;
  for (const TensorEntry& e : entries)
    order.push_back(&e);
  std::sort(order.begin(), order.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::pair(a->bytes.data(), a->bytes.size()) <
           std::pair(b->bytes.data(), b->bytes.size());
  });
  const std::byte* at = data.data();
  for (const TensorEntry* e : order) {
    if (e->bytes.data() < at)
      return wrong("overlaps another", e->name);
    if (e->bytes.data() > at)
      return wrong("follows bytes that belong to no tensor", e->name);
    at += e->bytes.size();
  }
  if (at != data.data() + data.size())
    return wrong(
        fmt::format("{} bytes at the end belong to no tensor", data.data() + data.size() - at));
  return {};
}

Result<std::vector<RawEntry>> parse_header(std::string_view text, const Complaint& wrong) {
  json::parse_options options;
  options.max_depth = 4;
  json::basic_parser<HeaderHandler> parser(options);
  json::error_code failed;
  const std::size_t parsed = parser.write_some(false, text.data(), text.size(), failed);
  const HeaderHandler& handler = parser.handler();
  if (failed || !parser.done())
    return wrong(handler.problem.empty()
                     ? fmt::format("the header is not JSON ({})", failed.message())
                     : handler.problem);
  if (text.find_first_not_of(' ', parsed) != text.npos)
    return wrong("the header goes on after its JSON");
  return std::move(parser.handler().entries);
}

} // namespace

std::size_t size_of(StoredType type) {
  const auto dtype = dtype_of(type);
  return dtype ? gpu::size_of(*dtype) : type == StoredType::i64 ? 8 : 1;
}

const char* to_string(StoredType type) noexcept {
  switch (type) {
  case StoredType::f32: return "F32";
  case StoredType::f16: return "F16";
  case StoredType::bf16: return "BF16";
  case StoredType::f8_e4m3: return "F8_E4M3";
  case StoredType::f8_e5m2: return "F8_E5M2";
  case StoredType::f8_e8m0: return "F8_E8M0";
  case StoredType::u8: return "U8";
  case StoredType::i8: return "I8";
  case StoredType::i64: return "I64";
  case StoredType::boolean: return "BOOL";
  }
  return "F32";
}

std::optional<gpu::DType> dtype_of(StoredType type) {
  switch (type) {
  case StoredType::f32: return gpu::DType::f32;
  case StoredType::f16: return gpu::DType::f16;
  case StoredType::bf16: return gpu::DType::bf16;
  default: return {};
  }
}

Result<std::vector<TensorEntry>> parse_safetensors(const std::string& path,
                                                   std::span<const std::byte> file) {
  const Complaint wrong{path};
  const auto text = header_text(file, wrong);
  if (!text)
    return tl::unexpected(text.error());
  auto raw = parse_header(*text, wrong);
  if (!raw)
    return tl::unexpected(raw.error());
  std::sort(raw->begin(), raw->end(),
            [](const RawEntry& a, const RawEntry& b) { return a.name < b.name; });
  const auto data = file.subspan(8 + text->size());
  std::vector<TensorEntry> entries;
  for (const RawEntry& r : *raw) {
    if (!entries.empty() && entries.back().name == r.name)
      return wrong("stands twice in the header", r.name);
    auto entry = check_entry(r, data, wrong);
    if (!entry)
      return tl::unexpected(entry.error());
    entries.push_back(std::move(*entry));
  }
  if (auto ok = check_cover(entries, data, wrong); !ok)
    return tl::unexpected(ok.error());
  return entries;
}

} // namespace paceline::models
