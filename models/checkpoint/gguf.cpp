#include "models/checkpoint/gguf.hpp"

#include "models/limits.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <type_traits>

namespace paceline::models {
namespace {

using Type = GgufValue::Type;

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr const char* damaged_file =
    "the file is damaged, or its download was cut off; download it again";
constexpr const char* foreign_file =
    "give a model that llama.cpp reads; if this should be one, download it again";
constexpr const char* readable_types =
    "use a file of F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS, "
    "MXFP4 or NVFP4";

/// Returns the bytes of a number of this type; none: it is a text or an array.
std::optional<std::size_t> size_of(Type type) {
  switch (type) {
  case Type::u8:
  case Type::i8:
  case Type::boolean: return 1;
  case Type::u16:
  case Type::i16: return 2;
  case Type::u32:
  case Type::i32:
  case Type::f32: return 4;
  case Type::u64:
  case Type::i64:
  case Type::f64: return 8;
  case Type::string:
  case Type::array: break;
  }
  return {};
}

template <class T>
T load(std::string_view bytes) {
  T out;
  std::memcpy(&out, bytes.data(), sizeof out);
  return out;
}

/// Calls `call` with the number that the bytes hold.
template <class F>
auto with_number(Type type, std::string_view bytes, const F& call) {
  switch (type) {
  case Type::i8: return call(load<std::int8_t>(bytes));
  case Type::u16: return call(load<std::uint16_t>(bytes));
  case Type::i16: return call(load<std::int16_t>(bytes));
  case Type::u32: return call(load<std::uint32_t>(bytes));
  case Type::i32: return call(load<std::int32_t>(bytes));
  case Type::f32: return call(load<float>(bytes));
  case Type::u64: return call(load<std::uint64_t>(bytes));
  case Type::i64: return call(load<std::int64_t>(bytes));
  case Type::f64: return call(load<double>(bytes));
  default: break;
  }
  return call(load<std::uint8_t>(bytes));
}

bool is_integer(Type type) {
  return size_of(type) && type != Type::f32 && type != Type::f64 && type != Type::boolean;
}

std::optional<std::int64_t> integer_of(Type type, std::string_view bytes) {
  if (!is_integer(type))
    return {};
  return with_number(type, bytes, [](auto value) -> std::optional<std::int64_t> {
    if (std::is_same_v<decltype(value), std::uint64_t> &&
        value > decltype(value)(std::numeric_limits<std::int64_t>::max()))
      return {};
    return std::int64_t(value);
  });
}

/// A tensor type that is not read, by its number.
struct Unread {
  std::uint32_t number;
  const char* name;
};
constexpr Unread unread[] = {
    {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {21, "IQ3_S"}, {22, "IQ2_S"}, {24, "I8"},      {25, "I16"},    {26, "I32"},     {27, "I64"},
    {28, "F64"},   {29, "IQ1_M"}, {34, "TQ1_0"},   {35, "TQ2_0"},  {41, "Q1_0"},    {42, "Q2_0"},
};

std::string name_of_type(std::uint32_t number) {
  const auto* at = std::ranges::find(unread, number, &Unread::number);
  return at == std::end(unread) ? fmt::format("type {}", number) : at->name;
}

std::optional<GgufType> type_of(std::uint32_t number) {
  switch (number) {
  case 0: return gpu::DType::f32;
  case 1: return gpu::DType::f16;
  case 30: return gpu::DType::bf16;
  default: break;
  }
  const auto format = gpu::gguf_format(number);
  return format ? std::optional<GgufType>(*format) : std::nullopt;
}

/// Returns how many elements the smallest run with bytes of its own has, and how many bytes.
std::pair<std::uint64_t, std::uint64_t> unit_of(GgufType type) {
  if (const auto* format = std::get_if<gpu::GgufFormat>(&type))
    return {std::uint64_t(gpu::block_elements(*format)), gpu::block_bytes(*format)};
  return {1, gpu::size_of(std::get<gpu::DType>(type))};
}

/// Reads a file from its beginning, up to the first error.
class GgufReader {
public:
  GgufReader(std::string path, std::span<const std::byte> file)
      : path_(std::move(path)), file_(reinterpret_cast<const char*>(file.data()), file.size()) {}

  Result<Gguf> read() {
    if (!file_.starts_with(gguf_magic))
      return wrong(file_.empty() ? "the file is empty" : "this is no GGUF file", ErrorCode::corrupt,
                   foreign_file);
    at_ = gguf_magic.size();
    const auto version = number<std::uint32_t>();
    const auto tensors = number<std::uint64_t>();
    const auto keys = number<std::uint64_t>();
    if (error_ || version < 2 || version > 3)
      return error_ ? tl::unexpected(*error_)
                    : wrong(fmt::format("the format is of version {}, where 2 and 3 are read",
                                        version),
                            ErrorCode::unsupported, "convert the model anew");
    if (tensors > limits::tensors_max)
      return wrong(fmt::format("the header says that there are {} tensors, more than {}", tensors,
                               limits::tensors_max));
    if (keys > limits::gguf_keys_max)
      return wrong(fmt::format("the header says that there are {} keys, more than {}", keys,
                               limits::gguf_keys_max));
    for (std::uint64_t i = 0; i < keys && !error_; ++i)
      read_key();
    for (std::uint64_t i = 0; i < tensors && !error_; ++i)
      read_tensor();
    if (!error_)
      place_tensors();
    if (error_)
      return tl::unexpected(*error_);
    return std::move(out_);
  }

private:
  /// The place in the file that the header gives for a tensor.
  struct Place {
    std::uint64_t offset;
    std::uint64_t bytes;
    std::size_t tensor; ///< Index of the tensor.
  };

  tl::unexpected<Error> wrong(const std::string& what, ErrorCode code = ErrorCode::corrupt,
                              const char* hint = damaged_file) {
    if (!error_)
      error_ = Error{code, fmt::format("{}: {}", text::shown_path(path_), what), hint};
    return tl::unexpected(*error_);
  }

  std::uint64_t left() const { return file_.size() - at_; }

  std::string_view take(std::uint64_t bytes) {
    if (bytes > left()) {
      wrong(fmt::format("the file ends in the middle{}", where_));
      return {};
    }
    const std::string_view out = file_.substr(at_, bytes);
    at_ += bytes;
    return out;
  }
  /// Returns 0 after an error.
  template <class T>
  T number() {
    const std::string_view bytes = take(sizeof(T));
    return bytes.empty() ? T(0) : load<T>(bytes);
  }
  std::string_view string() {
    const auto size = number<std::uint64_t>();
    if (size > left())
      wrong(
          fmt::format("the file ends in the middle{}: a text of {} bytes begins where {} are left",
                      where_, size, left()));
    return error_ ? std::string_view() : take(size);
  }
  /// Reads the name of a key or of a tensor.
  std::string name(const char* what) {
    const std::string_view out = string();
    if (!error_ && (out.empty() || out.size() > limits::gguf_name_bytes_max))
      wrong(fmt::format("the name of a {} has {} bytes, where 1 to {} belong", what, out.size(),
                        limits::gguf_name_bytes_max));
    return std::string(out);
  }

  void read_key() {
    where_ = " of its metadata";
    std::string key = name("key");
    where_ = " of key " + text::shown(key);
    const auto type = Type(number<std::uint32_t>());
    if (error_)
      return;
    auto value = type == Type::array ? read_array(key) : read_value(key, type);
    if (value && !out_.metadata.emplace(key, *value).second)
      wrong(fmt::format("key {} stands there twice", text::shown(key)));
  }

  std::optional<GgufValue> read_value(const std::string& key, Type type) {
    const auto size = size_of(type);
    if (!size && type != Type::string)
      wrong(fmt::format("key {} is of type {}, which is not known", text::shown(key),
                        std::uint32_t(type)));
    const std::string_view bytes = error_ ? "" : size ? take(*size) : string();
    return error_ ? std::nullopt : std::optional(GgufValue(type, bytes));
  }

  std::optional<GgufValue> read_array(const std::string& key) {
    const auto element = Type(number<std::uint32_t>());
    const auto count = number<std::uint64_t>();
    const auto size = size_of(element);
    if (!error_ && !size && element != Type::string)
      wrong(fmt::format("key {} is a list of type {}, which is not known", text::shown(key),
                        std::uint32_t(element)));
    // Each element takes a byte at least, and a text eight.
    if (!error_ && count > left() / size.value_or(sizeof(std::uint64_t)))
      wrong(fmt::format("key {} is a list of {} elements, for which {} bytes are too few",
                        text::shown(key), count, left()));
    const std::size_t begin = at_;
    if (!error_ && size)
      take(count * *size);
    for (std::uint64_t i = 0; i < count && !error_ && !size; ++i)
      string();
    if (error_)
      return {};
    return GgufValue(element, count, file_.substr(begin, at_ - begin));
  }

  void read_tensor() {
    where_ = " of its table of tensors";
    GgufTensor tensor{name("tensor"), gpu::DType::f32, {}, {}};
    where_ = " of tensor " + text::shown(tensor.name);
    const auto rank = number<std::uint32_t>();
    if (!error_ && (rank < 1 || rank > limits::gguf_rank_max))
      wrong(fmt::format("tensor {} has {} dimensions, where 1 to {} are known",
                        text::shown(tensor.name), rank, limits::gguf_rank_max));
    for (std::uint32_t i = 0; i < rank && !error_; ++i) {
      const auto size = number<std::uint64_t>();
      if (!error_ && (size == 0 || size > std::uint64_t(std::numeric_limits<std::int32_t>::max())))
        wrong(fmt::format("tensor {} has a dimension of {}", text::shown(tensor.name), size));
      tensor.shape.insert(tensor.shape.begin(), std::int64_t(size)); // Files put the fastest first.
    }
    const auto number_of_type = number<std::uint32_t>();
    const auto offset = number<std::uint64_t>();
    const auto type = type_of(number_of_type);
    if (!error_ && !type)
      wrong(fmt::format("tensor {} is {}, which is not read", text::shown(tensor.name),
                        name_of_type(number_of_type)),
            ErrorCode::unsupported, readable_types);
    if (error_)
      return;
    tensor.type = *type;
    if (const auto bytes = bytes_of(tensor)) {
      places_.push_back({offset, *bytes, out_.tensors.size()});
      out_.tensors.push_back(std::move(tensor));
    }
  }

  /// Returns the bytes of the tensor; none, and an error, if its type cannot have its shape.
  std::optional<std::uint64_t> bytes_of(const GgufTensor& tensor) {
    const auto [elements, bytes] = unit_of(tensor.type);
    std::uint64_t all = bytes;
    bool fits = std::uint64_t(tensor.shape.back()) % elements == 0;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      const auto size = std::uint64_t(tensor.shape[i]);
      const bool fastest = i + 1 == tensor.shape.size();
      fits = fits && !__builtin_mul_overflow(all, fastest ? size / elements : size, &all);
    }
    if (!fits)
      wrong(fmt::format("tensor {} is [{}] of {}, which takes no number of bytes",
                        text::shown(tensor.name), fmt::join(tensor.shape, ", "),
                        to_string(tensor.type)));
    return fits ? std::optional(all) : std::nullopt;
  }

  std::uint64_t alignment() {
    const auto at = out_.metadata.find("general.alignment");
    const auto value =
        at == out_.metadata.end() ? std::optional<std::int64_t>(32) : at->second.integer();
    if (value && *value >= 1 && *value <= limits::gguf_alignment_max &&
        std::has_single_bit(std::uint64_t(*value)))
      return std::uint64_t(*value);
    wrong(fmt::format("key general.alignment is no power of two from 1 to {}",
                      limits::gguf_alignment_max));
    return 1;
  }

  /// Gives each tensor its bytes; what lies between them is padding.
  void place_tensors() {
    const std::uint64_t unit = alignment();
    const std::uint64_t data =
        std::min<std::uint64_t>((at_ + unit - 1) / unit * unit, file_.size());
    const std::uint64_t size = file_.size() - data;
    out_.header_bytes = data;
    std::ranges::sort(places_, {}, &Place::offset);
    std::uint64_t end = 0;
    for (const Place& place : places_) {
      GgufTensor& tensor = out_.tensors[place.tensor];
      const std::string name = text::shown(tensor.name);
      if (place.offset % unit != 0)
        wrong(fmt::format("tensor {} lies at {}, no multiple of {}", name, place.offset, unit));
      else if (place.offset > size || place.bytes > size - place.offset)
        wrong(fmt::format("tensor {} needs {} bytes at {}, and the file has {} bytes of data", name,
                          place.bytes, place.offset, size));
      else if (place.offset < end)
        wrong(fmt::format("tensor {} overlaps another", name));
      if (error_)
        return;
      end = place.offset + place.bytes;
      tensor.bytes = std::as_bytes(std::span(file_.data() + data + place.offset, place.bytes));
    }
    std::ranges::sort(out_.tensors, {}, &GgufTensor::name);
    const auto twice = std::ranges::adjacent_find(out_.tensors, {}, &GgufTensor::name);
    if (twice != out_.tensors.end())
      wrong(fmt::format("tensor {} stands there twice", text::shown(twice->name)));
  }

  const std::string path_;
  const std::string_view file_;
  std::size_t at_ = 0;
  std::string where_; ///< What is being read, for messages.
  Gguf out_;
  std::vector<Place> places_;
  std::optional<Error> error_;
};

} // namespace

std::optional<std::int64_t> GgufValue::integer() const {
  return integer_of(type_, bytes_);
}

std::optional<double> GgufValue::number() const {
  if (type_ == Type::boolean || !size_of(type_))
    return {};
  return with_number(type_, bytes_, [](auto value) { return double(value); });
}

std::optional<bool> GgufValue::boolean() const {
  return type_ == Type::boolean ? std::optional(bytes_[0] != 0) : std::nullopt;
}

std::optional<std::string_view> GgufValue::string() const {
  return type_ == Type::string ? std::optional(bytes_) : std::nullopt;
}

std::optional<std::vector<std::int64_t>> GgufValue::integers() const {
  const bool booleans = element_ == Type::boolean;
  if (!is_array() || (!is_integer(element_) && !booleans))
    return {};
  const std::size_t size = *size_of(element_);
  std::vector<std::int64_t> out;
  out.reserve(count_);
  for (std::size_t at = 0; at < bytes_.size(); at += size) {
    const auto value = integer_of(booleans ? Type::u8 : element_, bytes_.substr(at, size));
    if (!value)
      return {};
    out.push_back(*value);
  }
  return out;
}

std::optional<std::vector<float>> GgufValue::numbers() const {
  if (!is_array() || element_ == Type::boolean || !size_of(element_))
    return {};
  const std::size_t size = *size_of(element_);
  std::vector<float> out;
  out.reserve(count_);
  for (std::size_t at = 0; at < bytes_.size(); at += size)
    out.push_back(
        with_number(element_, bytes_.substr(at), [](auto value) { return float(value); }));
  return out;
}

std::optional<std::vector<std::string_view>> GgufValue::strings() const {
  if (!is_array() || element_ != Type::string)
    return {};
  std::vector<std::string_view> out;
  out.reserve(count_);
  for (std::size_t at = 0; at < bytes_.size();) {
    const auto size = load<std::uint64_t>(bytes_.substr(at));
    at += sizeof size;
    out.push_back(bytes_.substr(at, size));
    at += size;
  }
  return out;
}

std::string GgufValue::encoded() const {
  const auto number = [](auto value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::string out;
  if (type_ == Type::string)
    out = number(std::uint64_t(bytes_.size()));
  if (is_array())
    out = number(element_) + number(count_);
  return out.append(bytes_);
}

const char* to_string(GgufType type) noexcept {
  return std::visit([](auto own) { return gpu::to_string(own); }, type);
}

std::uint64_t GgufTensor::elements() const {
  const auto [elements, unit] = unit_of(type);
  return bytes.size() / unit * elements;
}

Result<Gguf> parse_gguf(const std::string& path, std::span<const std::byte> file) {
  return GgufReader(path, file).read();
}

std::size_t gguf_header_bytes(std::span<const std::byte> file) {
  const auto read = parse_gguf("", file);
  return read ? read->header_bytes : 0;
}

} // namespace paceline::models
