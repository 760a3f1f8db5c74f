// Casters between the library's enumerations and their names (paceline/names.hpp).
#pragma once

#include "paceline/names.hpp"

#include <algorithm>
#include <cstdint>
#include <nanobind/nanobind.h>
#include <string_view>

namespace nanobind::detail {

/// Casts a value to and from its name.
template <class E>
struct named_caster {
  NB_TYPE_CASTER(E, const_name("str"))

  bool from_python(handle from, std::uint32_t, cleanup_list*) noexcept {
    if (!PyUnicode_Check(from.ptr()))
      return false;
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(from.ptr(), &length);
    if (!text) {
      PyErr_Clear();
      return false;
    }
    const auto& all = paceline::value_names<E>;
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& entry) {
      return entry.second == std::string_view(text, std::size_t(length));
    });
    if (found == all.end())
      return false;
    value = found->first;
    return true;
  }
  static handle from_cpp(E from, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_FromString(paceline::name_of(from));
  }
};

// nanobind has a caster for all enumerations, which only these go before.
template <>
struct type_caster<paceline::SpeculationMode> : named_caster<paceline::SpeculationMode> {};
template <>
struct type_caster<paceline::Lookahead> : named_caster<paceline::Lookahead> {};
template <>
struct type_caster<paceline::VerifyRule> : named_caster<paceline::VerifyRule> {};
template <>
struct type_caster<paceline::LogprobsMode> : named_caster<paceline::LogprobsMode> {};
template <>
struct type_caster<paceline::Constraint::Kind> : named_caster<paceline::Constraint::Kind> {};
template <>
struct type_caster<paceline::FinishReason> : named_caster<paceline::FinishReason> {};
template <>
struct type_caster<paceline::TokenSource> : named_caster<paceline::TokenSource> {};
template <>
struct type_caster<paceline::NumberFormat> : named_caster<paceline::NumberFormat> {};
template <>
struct type_caster<paceline::Prefill> : named_caster<paceline::Prefill> {};
template <>
struct type_caster<paceline::SchedulingPolicy> : named_caster<paceline::SchedulingPolicy> {};
template <>
struct type_caster<paceline::Batching> : named_caster<paceline::Batching> {};
template <>
struct type_caster<paceline::LogLevel> : named_caster<paceline::LogLevel> {};
template <>
struct type_caster<paceline::Activations> : named_caster<paceline::Activations> {};
template <>
struct type_caster<paceline::KvCacheDtype> : named_caster<paceline::KvCacheDtype> {};
template <>
struct type_caster<paceline::ScaleChoice> : named_caster<paceline::ScaleChoice> {};
template <>
struct type_caster<paceline::WeightFormat> : named_caster<paceline::WeightFormat> {};

} // namespace nanobind::detail
