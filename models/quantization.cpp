#include "models/quantization.hpp"

#include "gpu/mx.hpp"
#include "models/limits.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <fmt/format.h>
#include <fnmatch.h>

namespace paceline::models {
namespace json = boost::json;
namespace {

constexpr const char* unquantized_hint = "load the original, whose weights are BF16, F16 or F32";

/// Quark's names for the types of elements.
constexpr std::pair<const char*, WeightFormat> quark_dtypes[] = {
    {"fp8_e4m3", WeightFormat::mxfp8}, {"fp8_e5m2", WeightFormat::mxfp8_e5m2},
    {"fp6_e2m3", WeightFormat::mxfp6}, {"fp6_e3m2", WeightFormat::mxfp6_e3m2},
    {"fp4", WeightFormat::mxfp4},
};

/// Returns the name of a quantization's method, for messages.
std::string method_of(const json::object& quantization) {
  const json::value* method = quantization.if_contains("quant_method");
  if (!method || !method->is_string())
    return quantization.contains("load_in_4bit") ? "bitsandbytes" : "a method it does not name";
  const std::string_view name = method->get_string();
  return name == "gptq"    ? "GPTQ"
         : name == "awq"   ? "AWQ"
         : name == "quark" ? "Quark"
                           : text::shown(name);
}

const json::value* find(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value && !value->is_null() ? value : nullptr;
}

std::string text_of(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  return value && value->is_string() ? std::string(value->get_string()) : "";
}

std::int64_t number_of(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  return value && value->is_int64() ? value->get_int64() : 0;
}

/// Returns whether an option is there and set to something.
bool says(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  return value && *value != false && !(value->is_array() && value->get_array().empty()) &&
         !(value->is_object() && value->get_object().empty());
}

/// Reads the description of one layout; a part that it cannot read is an error that names the
/// method.
class Reader {
public:
  Reader(text::JsonFields& config, const char* key, const json::object& object, bool stacks)
      : config_(config), key_(key), object_(object), stacks_(stacks), method_(method_of(object)) {}

  StoredQuantization read() {
    const std::string name = text_of(object_, "quant_method");
    out_.method = method_;
    if (name == "quark")
      read_quark();
    else if (name == "compressed-tensors")
      read_compressed_tensors();
    else if (name == "fp8")
      read_fp8();
    else if (name != "mxfp4" || !stacks_) // Of stacks the tensors tell all.
      refuse("");
    return std::move(out_);
  }

private:
  void refuse(const std::string& what) {
    config_.wrong(ErrorCode::unsupported,
                  fmt::format("this is a checkpoint quantized by {} ({}){}, which is not read",
                              method_, key_, what),
                  unquantized_hint);
  }

  void read_quark() {
    if (const json::value* global = find(object_, "global_quant_config"))
      out_.format = read_quark_layer(*global);
    if (const json::value* layers = find(object_, "layer_quant_config"))
      read_quark_layers(*layers);
    if (says(object_, "layer_type_quant_config"))
      refuse(" with layer_type_quant_config");
    if (const json::value* algorithms = find(object_, "algo_config"))
      refuse_rotations(*algorithms);
    if (const json::value* exported = find(object_, "export"); exported && exported->is_object())
      out_.activations |= says(exported->get_object(), "kv_cache_group");
  }

  /// Refuses rotations: a model whose activations are rotated computes something else.
  void refuse_rotations(const json::value& algorithms) {
    const auto check = [&](const json::value& one) {
      const std::string name = one.is_object() ? text_of(one.get_object(), "name") : "";
      if (name.find("rot") != name.npos)
        refuse(" with " + text::shown(name));
    };
    check(algorithms);
    if (algorithms.is_array())
      std::for_each(algorithms.get_array().begin(), algorithms.get_array().end(), check);
  }

  void read_quark_layers(const json::value& layers) {
    if (!layers.is_object())
      return refuse(" with a layer_quant_config that is no object");
    for (const auto& [pattern, layer] : layers.get_object()) {
      if (out_.layers.size() == limits::quantized_patterns_max)
        return refuse(
            fmt::format(" with more than {} layer_quant_config", limits::quantized_patterns_max));
      if (std::string_view(pattern).starts_with("re:"))
        return refuse(" with the pattern " + text::shown(pattern));
      if (const auto format = read_quark_layer(layer))
        out_.layers.emplace_back(std::string(pattern), *format);
    }
  }

  /// Returns none if the layer is not quantized, or holds FP8 numbers with scales of their own
  /// kind.
  std::optional<WeightFormat> read_quark_layer(const json::value& layer) {
    const json::object* object = layer.if_object();
    if (!object) {
      refuse(" with a layer's description that is no object");
      return {};
    }
    for (const char* other : {"input_tensors", "output_tensors"})
      out_.activations |= says(*object, other);
    const json::value* weight = find(*object, "weight");
    return weight ? quark_format(*weight) : std::nullopt;
  }

  std::optional<WeightFormat> quark_format(const json::value& weight) {
    const json::object* object = weight.if_object();
    if (!object) {
      refuse(" with weights of two parts");
      return {};
    }
    std::string dtype = text_of(*object, "dtype");
    if (dtype == "mx" && text_of(*object, "mx_element_dtype") == "int8" &&
        number_of(*object, "group_size") == gpu::mx_block)
      return WeightFormat::mxint8;
    const auto* known = std::find_if(std::begin(quark_dtypes), std::end(quark_dtypes),
                                     [&](const auto& one) { return one.first == dtype; });
    const std::string scheme = text_of(*object, "qscheme");
    if (dtype == "fp8_e4m3" && (scheme == "per_tensor" || scheme == "per_channel"))
      return {};
    if (known != std::end(quark_dtypes) && number_of(*object, "group_size") == gpu::mx_block &&
        text_of(*object, "scale_format") == "e8m0")
      return known->second;
    refuse(fmt::format(" to {} {} of {}", text::shown(dtype), text::shown(scheme),
                       number_of(*object, "group_size")));
    return {};
  }

  void read_compressed_tensors() {
    for (const char* changing : {"sparsity_config", "transform_config"})
      if (says(object_, changing))
        refuse(std::string(" with ") + changing);
    out_.activations |= says(object_, "kv_cache_scheme");
    const json::value* groups = find(object_, "config_groups");
    if (!groups || !groups->is_object())
      return refuse(" without config_groups");
    for (const auto& [name, group] : groups->get_object())
      if (group.is_object())
        read_group(group.get_object());
      else
        refuse(" with a group " + text::shown(name) + " that is no object");
  }

  void read_group(const json::object& group) {
    for (const char* other : {"input_activations", "output_activations"})
      out_.activations |= says(group, other);
    const json::value* weights = find(group, "weights");
    if (!weights || !weights->is_object())
      return;
    const json::object& w = weights->get_object();
    const std::int64_t bits = number_of(w, "num_bits");
    const std::int64_t size = number_of(w, "group_size");
    const std::string strategy = text_of(w, "strategy");
    const bool known = text_of(w, "type") == "float" && w.contains("symmetric") &&
                       w.at("symmetric") == true &&
                       ((bits == 4 && size == gpu::mx_block) ||
                        (bits == 8 && (size == gpu::mx_block || strategy == "tensor" ||
                                       strategy == "channel" || strategy == "block")));
    if (!known)
      return refuse(fmt::format(" to {} bits of {}, {} {}", bits, text::shown(text_of(w, "type")),
                                text::shown(strategy), size));
    if (bits == 4)
      out_.format = WeightFormat::mxfp4;
    if (const json::value* block = find(w, "block_structure"))
      read_block(*block, "block_structure");
  }

  /// Reads the layout of DeepSeek's and Qwen's FP8 checkpoints.
  void read_fp8() {
    if (const std::string format = text_of(object_, "fmt"); !format.empty() && format != "e4m3")
      refuse(" in " + text::shown(format));
    if (const json::value* block = find(object_, "weight_block_size"))
      read_block(*block, "weight_block_size");
    out_.activations = text_of(object_, "activation_scheme") != "";
  }

  void read_block(const json::value& value, const char* name) {
    const json::array* sizes = value.if_array();
    const auto in_range = [](const json::value& size) {
      return size.is_int64() && size.get_int64() > 0 && size.get_int64() <= limits::hidden_max;
    };
    if (!sizes || sizes->size() != 2 || !in_range((*sizes)[0]) || !in_range((*sizes)[1]))
      return refuse(std::string(" with a ") + name + " that is not two sizes");
    out_.block_rows = int((*sizes)[0].get_int64());
    out_.block_cols = int((*sizes)[1].get_int64());
  }

  text::JsonFields& config_;
  const char* key_;
  const json::object& object_;
  bool stacks_;
  std::string method_;
  StoredQuantization out_;
};

json::object quark_weight(const gpu::Quantization& how) {
  json::object weight;
  if (how.format == WeightFormat::mxint8) {
    weight = {{"dtype", "mx"}, {"mx_element_dtype", "int8"}};
  } else {
    const auto* known = std::find_if(std::begin(quark_dtypes), std::end(quark_dtypes),
                                     [&](const auto& one) { return one.second == how.format; });
    weight = {{"dtype", known->first}, {"mx_element_dtype", nullptr}};
  }
  weight["qscheme"] = "per_group";
  weight["ch_axis"] = -1;
  weight["group_size"] = gpu::mx_block;
  weight["is_dynamic"] = false;
  weight["symmetric"] = nullptr;
  weight["round_method"] = "half_even";
  weight["scale_type"] = "float";
  weight["scale_format"] = "e8m0";
  weight["scale_calculation_mode"] =
      how.scales == ScaleChoice::search ? json::value(nullptr) : json::value(to_string(how.scales));
  weight["observer_cls"] = "PerBlockMXObserver";
  weight["is_scale_quant"] = false;
  return weight;
}

json::object quark_layer(const gpu::Quantization& how) {
  return {{"weight", quark_weight(how)},
          {"input_tensors", nullptr},
          {"output_tensors", nullptr},
          {"bias", nullptr},
          {"target_device", nullptr}};
}

} // namespace

std::optional<WeightFormat> StoredQuantization::format_of(const std::string& name) const {
  for (const auto& [pattern, one] : layers)
    if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0)
      return one;
  return format;
}

StoredQuantization read_quantization(text::JsonFields& config, bool stacks) {
  StoredQuantization out;
  for (const char* key : {"quantization_config", "compression_config", "quantization"}) {
    const json::value* value = config.find(key);
    if (!value || *value == false || *value == 0 ||
        (value->is_array() && value->get_array().empty()))
      continue;
    const json::object* object = value->if_object();
    const json::object unnamed;
    out = Reader(config, key, object ? *object : unnamed, stacks).read();
  }
  return out;
}

json::object quantization_config(const gpu::Quantization& blocks,
                                 const std::optional<gpu::Quantization>& head,
                                 const std::string& head_name,
                                 const std::vector<std::string>& plain) {
  json::object layers;
  json::array exclude;
  for (const std::string& layer : plain)
    exclude.emplace_back("*." + layer);
  if (head)
    layers[head_name] = quark_layer(*head);
  else
    exclude.emplace_back(head_name);
  return {{"quant_method", "quark"},
          {"quant_mode", "eager_mode"},
          {"global_quant_config", quark_layer(blocks)},
          {"layer_quant_config", std::move(layers)},
          {"layer_type_quant_config", json::object()},
          {"exclude", std::move(exclude)},
          {"algo_config", nullptr},
          {"softmax_quant_spec", nullptr},
          {"export",
           {{"kv_cache_group", json::array()},
            {"min_kv_scale", 0.0},
            {"pack_method", "reorder"},
            {"weight_format", "real_quantized"},
            {"weight_merge_groups", nullptr}}}};
}

} // namespace paceline::models
