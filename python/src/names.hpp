// Enumerations of the library as Python has them: by the names that commands and JSON use.
#pragma once

#include "paceline/engine.hpp"

#include <algorithm>
#include <array>
#include <nanobind/nanobind.h>
#include <string_view>
#include <utility>

namespace paceline::python {

template <class E>
using Names = std::array<std::pair<E, const char*>, 0>;

/// Every value of an enumeration with its name; specialised for those that cross.
template <class E>
inline constexpr auto names = Names<E>{};

template <>
inline constexpr auto names<SpeculationMode> =
    std::to_array<std::pair<SpeculationMode, const char*>>({{SpeculationMode::off, "off"},
                                                            {SpeculationMode::sync, "sync"},
                                                            {SpeculationMode::overlap, "overlap"},
                                                            {SpeculationMode::automatic, "auto"}});
template <>
inline constexpr auto names<Lookahead> =
    std::to_array<std::pair<Lookahead, const char*>>({{Lookahead::automatic, "auto"},
                                                      {Lookahead::none, "none"},
                                                      {Lookahead::chain, "chain"},
                                                      {Lookahead::fork, "fork"}});
template <>
inline constexpr auto names<VerifyRule> =
    std::to_array<std::pair<VerifyRule, const char*>>({{VerifyRule::rejection, "rejection"},
                                                       {VerifyRule::coupled, "coupled"},
                                                       {VerifyRule::match, "match"},
                                                       {VerifyRule::automatic, "auto"}});
template <>
inline constexpr auto names<LogprobsMode> = std::to_array<std::pair<LogprobsMode, const char*>>(
    {{LogprobsMode::raw, "raw"}, {LogprobsMode::processed, "processed"}});
template <>
inline constexpr auto
    names<Constraint::Kind> = std::to_array<std::pair<Constraint::Kind, const char*>>(
        {{Constraint::Kind::json, "json"},
         {Constraint::Kind::json_schema, "json_schema"},
         {Constraint::Kind::regex, "regex"},
         {Constraint::Kind::choice, "choice"},
         {Constraint::Kind::grammar, "grammar"},
         {Constraint::Kind::structural_tag, "structural_tag"}});
template <>
inline constexpr auto names<FinishReason> =
    std::to_array<std::pair<FinishReason, const char*>>({{FinishReason::stop, "stop"},
                                                         {FinishReason::length, "length"},
                                                         {FinishReason::cancelled, "cancelled"},
                                                         {FinishReason::deadline, "deadline"},
                                                         {FinishReason::error, "error"}});
template <>
inline constexpr auto names<TokenSource> =
    std::to_array<std::pair<TokenSource, const char*>>({{TokenSource::target, "target"},
                                                        {TokenSource::draft, "draft"},
                                                        {TokenSource::lookahead, "lookahead"}});
template <>
inline constexpr auto names<NumberFormat> =
    std::to_array<std::pair<NumberFormat, const char*>>({{NumberFormat::automatic, "auto"},
                                                         {NumberFormat::f32, "f32"},
                                                         {NumberFormat::f16, "f16"},
                                                         {NumberFormat::bf16, "bf16"}});
template <>
inline constexpr auto names<Prefill> = std::to_array<std::pair<Prefill, const char*>>(
    {{Prefill::invariant, "invariant"}, {Prefill::fast, "fast"}});
template <>
inline constexpr auto
    names<SchedulingPolicy> = std::to_array<std::pair<SchedulingPolicy, const char*>>(
        {{SchedulingPolicy::fcfs, "fcfs"},
         {SchedulingPolicy::priority, "priority"},
         {SchedulingPolicy::deadline, "deadline"}});
template <>
inline constexpr auto names<Batching> =
    std::to_array<std::pair<Batching, const char*>>({{Batching::hybrid, "hybrid"},
                                                     {Batching::prefill_first, "prefill-first"},
                                                     {Batching::request, "request"}});
template <>
inline constexpr auto names<LogLevel> = std::to_array<std::pair<LogLevel, const char*>>(
    {{LogLevel::info, "info"}, {LogLevel::warning, "warning"}, {LogLevel::error, "error"}});
template <>
inline constexpr auto names<Activations> = std::to_array<std::pair<Activations, const char*>>(
    {{Activations::bf16, "bf16"}, {Activations::int8, "int8"}});
template <>
inline constexpr auto names<ScaleChoice> = std::to_array<std::pair<ScaleChoice, const char*>>(
    {{ScaleChoice::floor, "floor"}, {ScaleChoice::ceil, "ceil"}, {ScaleChoice::search, "search"}});
/// Those that weights are quantized to while they are loaded; GGUF's are for files alone.
template <>
inline constexpr auto names<WeightFormat> =
    std::to_array<std::pair<WeightFormat, const char*>>({{WeightFormat::mxfp8, "mxfp8"},
                                                         {WeightFormat::mxfp8_e5m2, "mxfp8-e5m2"},
                                                         {WeightFormat::mxfp6, "mxfp6"},
                                                         {WeightFormat::mxfp6_e3m2, "mxfp6-e3m2"},
                                                         {WeightFormat::mxfp4, "mxfp4"},
                                                         {WeightFormat::mxint8, "mxint8"}});

} // namespace paceline::python

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
    const auto& all = paceline::python::names<E>;
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& entry) {
      return entry.second == std::string_view(text, std::size_t(length));
    });
    if (found == all.end())
      return false;
    value = found->first;
    return true;
  }
  static handle from_cpp(E from, rv_policy, cleanup_list*) noexcept {
    for (const auto& [value, name] : paceline::python::names<E>)
      if (value == from)
        return PyUnicode_FromString(name);
    return PyUnicode_FromString("");
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
struct type_caster<paceline::ScaleChoice> : named_caster<paceline::ScaleChoice> {};
template <>
struct type_caster<paceline::WeightFormat> : named_caster<paceline::WeightFormat> {};

} // namespace nanobind::detail
