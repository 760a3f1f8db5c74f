// Small GGUF files, written key by key.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace paceline::testing {

/// Keys keep their order; a key that is put again is replaced.
class GgufWriter {
public:
  enum Type : std::uint32_t {
    u8,
    i8,
    u16,
    i16,
    u32,
    i32,
    f32,
    boolean,
    text,
    array,
    u64,
    i64,
    f64
  };

  /// Writes the value as `type`; its own type's, unless that is said.
  template <class T>
  GgufWriter& put(const std::string& key, const T& value) {
    set(key, number(type_of<T>()) + encoded(value));
    return *this;
  }
  template <class T>
  GgufWriter& put(const std::string& key, const std::vector<T>& values) {
    std::string bytes = number(array) + number(type_of<T>()) + number(std::uint64_t(values.size()));
    for (const auto& value : values)
      bytes += encoded(T(value));
    set(key, bytes);
    return *this;
  }
  /// A value as it stands in a file: its type, and what follows.
  void set(const std::string& key, std::string bytes) {
    for (auto& [name, value] : keys_)
      if (name == key) {
        value = std::move(bytes);
        return;
      }
    keys_.emplace_back(key, std::move(bytes));
  }
  void remove(const std::string& key) {
    std::erase_if(keys_, [&](const auto& own) { return own.first == key; });
  }

  /// shape: slowest first. type: as files number it; 0 is f32.
  GgufWriter& tensor(const std::string& name, std::uint32_t type, std::vector<std::uint64_t> shape,
                     std::string bytes) {
    tensors_[name] = {type, std::move(shape), std::move(bytes), {}};
    return *this;
  }
  GgufWriter& tensor(const std::string& name, std::vector<std::uint64_t> shape,
                     const std::vector<float>& values) {
    return tensor(name, 0, std::move(shape),
                  {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  /// Puts tensors of one type one below the other, into one.
  void join(const std::string& name, const std::vector<std::string>& parts) {
    Tensor whole = tensors_.at(parts.front());
    for (const std::string& part : parts) {
      const Tensor own = tensors_.at(part);
      tensors_.erase(part);
      if (part == parts.front())
        continue;
      whole.shape[0] += own.shape[0];
      whole.bytes += own.bytes;
    }
    tensors_[name] = whole;
  }
  /// The same tensor in another type: encode(its bytes)
  template <class F>
  void store_as(const std::string& name, std::uint32_t type, const F& encode) {
    Tensor& tensor = tensors_.at(name);
    tensor.type = type;
    tensor.bytes = encode(tensor.bytes);
  }
  /// Puts a tensor once more, under another name.
  void copy(const std::string& name, const std::string& from) {
    tensors_[name] = tensors_.at(from);
  }
  /// Where a file says that the tensor lies, in place of where it does.
  void misplace(const std::string& name, std::uint64_t offset) {
    tensors_.at(name).offset = std::to_string(offset);
  }
  /// Writes a key behind the others, even if it is there.
  void repeat(const std::string& key, std::string bytes) {
    keys_.emplace_back(key, std::move(bytes));
  }
  void drop(const std::string& name) { tensors_.erase(name); }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, tensor] : tensors_)
      out.push_back(name);
    return out;
  }

  std::string bytes() const {
    std::string out = "GGUF" + number(version) + number(std::uint64_t(tensors_.size())) +
                      number(std::uint64_t(keys_.size()));
    for (const auto& [key, value] : keys_)
      out += encoded(key) + value;
    std::string data;
    for (const auto& [name, tensor] : tensors_) {
      data.resize((data.size() + alignment - 1) / alignment * alignment);
      out += encoded(name) + number(std::uint32_t(tensor.shape.size()));
      for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
        out += number(*size);
      out += number(tensor.type) + number(tensor.offset.empty()
                                              ? std::uint64_t(data.size())
                                              : std::uint64_t(std::stoull(tensor.offset)));
      data += tensor.bytes;
    }
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data;
  }

  std::uint32_t version = 3;
  std::size_t alignment = 32; ///< Of tensors; general.alignment is not written.

  template <class T>
  static std::string number(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }

private:
  struct Tensor {
    std::uint32_t type;
    std::vector<std::uint64_t> shape;
    std::string bytes;
    std::string offset; ///< Empty: its own.
  };

  template <class T>
  static constexpr Type type_of() {
    if constexpr (std::is_same_v<T, bool>)
      return boolean;
    else if constexpr (std::is_same_v<T, float>)
      return f32;
    else if constexpr (std::is_same_v<T, double>)
      return f64;
    else if constexpr (std::is_integral_v<T>)
      return std::is_signed_v<T> ? (sizeof(T) == 8 ? i64 : i32) : (sizeof(T) == 8 ? u64 : u32);
    else
      return text;
  }
  template <class T>
  static std::string encoded(const T& value) {
    if constexpr (std::is_arithmetic_v<T>)
      return number(value);
    else
      return number(std::uint64_t(std::string_view(value).size())).append(value);
  }

  std::vector<std::pair<std::string, std::string>> keys_;
  std::map<std::string, Tensor> tensors_;
};

} // namespace paceline::testing
